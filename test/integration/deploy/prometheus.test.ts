import { execFile } from 'node:child_process'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { stringify } from 'yaml'
import { findOrInstall } from '../../../services/cli/plane/programs.ts'
import { dashboards, queriesOf } from '../../support/dashboards.ts'

const run = promisify(execFile)

let promtool: string
let dir: string

beforeAll(async () => {
  promtool = await findOrInstall('promtool', {
    env: process.env,
    isRoot: process.getuid?.() === 0,
    say: (line) => process.stderr.write(`${line}\n`),
  })
  dir = await mkdtemp(join(tmpdir(), 'quotaplane-promtool-'))
}, 300_000)

afterAll(async () => {
  await rm(dir, { recursive: true, force: true })
})

describe('deploy/prometheus, by promtool', () => {
  it('is a configuration with rules that Prometheus takes', async () => {
    await run(promtool, ['check', 'config', 'deploy/prometheus/prometheus.yml'])
  })

  it('raises each alert when its cause is there, and none for a plane in order', async () => {
    const { stdout } = await run(promtool, ['test', 'rules', 'deploy/prometheus/rules.test.yml'])
    expect(stdout).toContain('SUCCESS')
  })
})

describe('deploy/grafana, by promtool', () => {
  it('asks only queries that Prometheus understands', async () => {
    const rules = dashboards()
      .flatMap(queriesOf)
      .map((expr, index) => ({ record: `dashboard:query:${index}`, expr }))
    expect(rules.length).toBeGreaterThan(40)
    const file = join(dir, 'queries.yml')
    await writeFile(file, stringify({ groups: [{ name: 'dashboards', rules }] }))
    const { stdout } = await run(promtool, ['check', 'rules', file])
    expect(stdout).toContain(`SUCCESS: ${rules.length} rules found`)
  })
})
