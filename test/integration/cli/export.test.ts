import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { runProgram } from '../../../services/cli/program.ts'
import { ioWith } from '../../unit/cli/fake-io.ts'
import { type Admin, startAdmin, TOKEN } from '../admin/admin-harness.ts'

const ENVOY = `domain: edge_proxy
descriptors:
  - {key: path, value: "/v1/*/x", rate_limit: {name: x, unit: minute, requests_per_unit: 9}}
  - {key: path, value: "/v1/*", share_threshold: true, rate_limit: {unit: hour, requests_per_unit: 70, replaces: [{name: x}]}}
  - {key: path, shadow_mode: true, rate_limit: {unit: day, requests_per_unit: 1}}
`
let admin: Admin
let env: Record<string, string>
beforeAll(async () => {
  admin = await startAdmin()
  await admin.register('us-east-1', 'eu-west-1')
  const url = await admin.app.listen({ host: '127.0.0.1', port: 0 })
  env = { QUOTAPLANE_URL: url, QUOTAPLANE_TOKEN: TOKEN }
})
afterAll(() => admin.close())

async function run(stdin: string, ...args: readonly string[]) {
  const io = ioWith({ env, stdin })
  const exitCode = await runProgram(args, io)
  return { exitCode, out: io.written.out, err: io.written.err }
}

describe('quotaplane import --apply and export', () => {
  it('bring a configuration in, split between the regions there are, and out again unchanged', async () => {
    const applied = await run(ENVOY, 'import', 'envoy', '-', '--apply')
    expect(applied).toMatchObject({ exitCode: 0, err: '' })
    expect(applied.out.split('\n').filter((line) => line.includes('created'))).toHaveLength(3)
    const [newest] = (await admin.call('GET', '/v1/revisions?limit=1')).body.items
    expect(newest.changes.map(({ action }: { action: string }) => action)).toEqual(
      Array(3).fill('policy.create'),
    )
    const exported = await run('', 'export', '--domain', 'edge_proxy')
    expect(exported).toMatchObject({ exitCode: 0, err: '' })
    expect(exported.out).toMatch(/split:\n\s+eu-west-1: 50\n\s+us-east-1: 50/)
    const again = await run(exported.out, 'policy', 'apply', '-f', '-')
    expect(again.out.match(/ unchanged /g)).toHaveLength(3)
    expect(await run(ENVOY, 'import', 'envoy', '-', '--apply')).toMatchObject({
      out: expect.not.stringMatching(/created|updated/),
    })
  })

  it('write for Envoy what it can say, list the rest, and then end with 1', async () => {
    const whole = await run('', 'export', '--format', 'envoy', '--domain', 'edge_proxy')
    expect(whole).toMatchObject({ exitCode: 0, err: '' })
    const back = await run(whole.out, 'import', 'envoy', '-', '--apply')
    expect(back.out.match(/ unchanged /g)?.length ?? 0).toBeGreaterThanOrEqual(1)
    await admin.create()
    const partial = await run('', 'export', '--format', 'envoy')
    expect(partial).toMatchObject({ exitCode: 1 })
    expect(partial.err).toContain('left out: api/per-tenant counts by token_bucket')
  })
})
