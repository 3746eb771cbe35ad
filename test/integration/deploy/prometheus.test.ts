import { execFile } from 'node:child_process'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { stringify } from 'yaml'
import { createAdminMetrics } from '../../../services/admin/metrics.ts'
import { findOrInstall } from '../../../services/cli/plane/programs.ts'
import { createEnforcerMetrics } from '../../../services/enforcer/metrics.ts'
import { createSyncMetrics } from '../../../services/sync/metrics.ts'
import { createRegistry } from '../../../shared/runtime/metrics.ts'
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

describe('what services export, by promtool', () => {
  it('is read as it was meant, whatever names hold that operators choose (B160)', async () => {
    const names = ['a.b', 'a:b', 'say "no"', 'back\\slash', 'new\nline', 'Grüße 世界', '{}=,#']
    const enforcer = createRegistry({ region: 'us-east-1' }, false)
    const { cellsOf } = createEnforcerMetrics(enforcer)
    const sync = createRegistry({ region: 'us-east-1' }, false)
    const { usage, epoch } = createSyncMetrics(sync, () => true)
    const admin = createRegistry({ service: 'admin' }, false)
    const { requests, records } = createAdminMetrics(admin)
    for (const name of names) {
      cellsOf(name).allowed.count++
      usage.set({ limit: name, scope: 'own' }, 1)
      epoch.set({ limit: name }, 1)
      requests.inc({ route: name, method: 'GET', status: 200 })
      records.inc({ outcome: name })
    }
    for (const registry of [enforcer, sync, admin]) {
      const text = await registry.metrics()
      const checking = promisify(execFile)(promtool, ['check', 'metrics'])
      checking.child.stdin?.end(text)
      await checking
    }
    const text = await enforcer.metrics()
    const series = text
      .split('\n')
      .filter((line) => /^quotaplane_decisions_total\{.*outcome="allowed",reason="none"/.test(line))
    expect(series).toHaveLength(names.length)
    expect(series.filter((line) => line.endsWith('} 1'))).toHaveLength(names.length)
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
