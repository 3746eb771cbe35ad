import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { runProgram } from '../../../services/cli/program.ts'
import { ioWith } from '../../unit/cli/fake-io.ts'
import { type Admin, startAdmin, TOKEN } from '../admin/admin-harness.ts'

let admin: Admin
let env: Record<string, string>
let folder: string

beforeAll(async () => {
  admin = await startAdmin()
  await admin.register('us-east-1', 'eu-west-1')
  const url = await admin.app.listen({ host: '127.0.0.1', port: 0 })
  env = { QUOTAPLANE_URL: url, QUOTAPLANE_TOKEN: TOKEN }
  folder = await mkdtemp(join(tmpdir(), 'quota-apply-'))
})
afterAll(async () => {
  await admin.close()
  await rm(folder, { recursive: true, force: true })
})

async function run(...args: readonly string[]) {
  const io = ioWith({ env })
  const exitCode = await runProgram(args, io)
  return { exitCode, out: io.written.out, err: io.written.err }
}

async function fileOf(name: string, text: string): Promise<string> {
  const file = join(folder, name)
  await writeFile(file, text)
  return file
}

const policy = (name: string, capacity: number, rest = '') => `domain: shop
name: ${name}
match: [{ key: ${name} }]
limits:
  - name: per-second
    algorithm: token_bucket
    capacity: ${capacity}
    windowMs: 1000
    split: { us-east-1: 60, eu-west-1: 40 }
${rest}`

describe('quotaplane apply', () => {
  it('tells by file, line and field what admin refuses, of overrides too', async () => {
    const overrides = `overrides:
  - value: acme
    unlimited: true
  - value: late
    unlimited: true
    expiresAt: "2020-01-01T00:00:00Z"
`
    const text = [policy('first', 100), policy('second', 100, overrides)].join('---\n')
    const file = await fileOf('refused.yaml', text)
    const refused = await run('apply', '-f', file)
    expect(refused.exitCode).not.toBe(0)
    const line = 1 + text.split('\n').findIndex((one) => one.includes('expiresAt'))
    expect(refused.err).toContain(`${file}:${line}: overrides[1].expiresAt: has passed already`)
    expect(refused.err).toContain('Nothing was applied.')
  })

  it('tells by file, line and field what an applied policy warns of', async () => {
    const text = [policy('calm', 100), policy('small', 1, 'acceptSmallLimits: true\n')].join(
      '---\n',
    )
    const file = await fileOf('warned.yaml', text)
    const { out, exitCode } = await run('apply', '-f', file)
    expect(exitCode).toBe(0)
    const line =
      1 +
      text
        .split('\n')
        .findIndex((one) => one.includes('capacity: 1') && !one.includes('capacity: 10'))
    expect(out).toContain(`  warning: ${file}:${line}: limits[0].capacity`)
  })

  it('prunes domains with their policies, after saying so, and names what stands in the way', async () => {
    const labels = 'labels: { team: search }\n'
    const described = `kind: domain\ndomain: search\n${labels}`
    const inside = policy('inside', 100, labels).replace('domain: shop', 'domain: search')
    const both = await fileOf('both.yaml', [described, inside].join('---\n'))
    const none = await fileOf('none.yaml', policy('calm', 100))
    const prune = ['--prune', '-l', 'team=search']
    await run('apply', '-f', both)
    expect((await run('diff', '-f', none, ...prune)).out).toContain(
      '--- domain search\n+++ /dev/null',
    )
    const foreign = await fileOf(
      'foreign.yaml',
      inside.replaceAll('inside', 'theirs').replace(labels, ''),
    )
    await run('apply', '-f', foreign)
    const refused = await run('apply', '-f', none, ...prune)
    expect(refused).toMatchObject({ exitCode: 1, out: '' })
    expect(refused.err).toMatch(/prune\.labels: would remove the domain search.*search\/theirs/)
    await run('policy', 'delete', 'search/theirs')
    const { out, exitCode } = await run('apply', '-f', none, ...prune)
    expect(exitCode).toBe(0)
    expect(out).toMatch(/^domain search deleted\n/)
    expect(out).toContain('search/inside deleted\n')
  })
})
