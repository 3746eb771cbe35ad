import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { runProgram } from '../../../services/cli/program.ts'
import { Secret } from '../../../shared/runtime/env.ts'
import { ioWith } from '../../unit/cli/fake-io.ts'
import { aPolicy, startRegion, type TestEnforcer, type TestRegion } from './region.ts'

const TOKEN = 'a-token-for-debugging'

let region: TestRegion
let enforcer: TestEnforcer
let closed: TestEnforcer
let env: Record<string, string>

beforeAll(async () => {
  region = await startRegion([aPolicy({ name: 'tenants', limits: [{ name: 'few', capacity: 1 }] })])
  enforcer = await region.startEnforcer({ debugToken: new Secret(TOKEN) })
  closed = await region.startEnforcer()
  const url = await enforcer.app.listen({ host: '127.0.0.1', port: 0 })
  env = { QUOTAPLANE_ENFORCER_URL: url, QUOTAPLANE_DEBUG_TOKEN: TOKEN }
})
afterAll(() => region?.stop())

const call = (of: TestEnforcer, token: string | null, method: 'GET' | 'PUT', payload?: object) =>
  of.app.inject({
    method,
    url: '/v1/debug/decisions',
    ...(token !== null && { headers: { authorization: `Bearer ${token}` } }),
    ...(payload !== undefined && { payload }),
  })

async function debug(...args: readonly string[]) {
  const io = ioWith({ env })
  const exitCode = await runProgram(['debug', 'decisions', ...args], io)
  return { exitCode, out: io.written.out, err: io.written.err }
}

describe('a sample of decisions', () => {
  it('is shown to nobody without the debug token, and by no enforcer that has none', async () => {
    for (const [token, status] of [
      [null, 401],
      ['wrong', 401],
      [TOKEN, 200],
    ] as const) {
      expect((await call(enforcer, token, 'GET')).statusCode).toBe(status)
      expect((await call(enforcer, token, 'PUT', { sample: 0 })).statusCode).toBe(status)
    }
    const reply = await call(closed, TOKEN, 'GET')
    expect(reply.statusCode).toBe(403)
    expect(reply.json().detail).toContain('ENFORCER_DEBUG_TOKEN')
  })

  it('names the fields of a wish that is not valid, and how to mend them', async () => {
    const reply = await call(enforcer, TOKEN, 'PUT', { sample: '1%', seconds: 0 })
    expect(reply.statusCode).toBe(400)
    expect(reply.json().errors.map(({ field }: { field: string }) => field)).toEqual([
      'sample',
      'seconds',
    ])
  })

  it('says who was allowed and who denied, by what and why', async () => {
    const begun = await debug('--sample', '100%', '--for', '1m')
    expect(begun).toMatchObject({ exitCode: 0, err: '' })
    expect(begun.out).toMatch(/Keeping 100 % of the checks until 20\S+Z\./)
    await enforcer.check('acme')
    await enforcer.check('acme')
    await enforcer.check([{ unknown: 'x' }])
    const { out } = await debug('-o', 'json')
    const { decisions } = JSON.parse(out)
    expect(decisions).toMatchObject([
      {
        allowed: true,
        domain: 'api',
        descriptors: ['tenant=acme'],
        decisions: [{ policy: 'api/tenants', limitName: 'few', allowed: true, remaining: 0 }],
      },
      { allowed: false, decisions: [{ allowed: false, reason: 'limit' }] },
      { allowed: true, unmatched: true, descriptors: ['unknown=x'] },
    ])
    const shown = (await debug()).out
    expect(shown).toMatch(/denied +api +tenant=acme +api\/tenants\/few: limit/)
    expect((await debug('--sample', '0')).out).toContain('Nothing is being kept')
    await enforcer.check('later')
    expect((await debug('-o', 'json')).out).not.toContain('tenant=later')
  })

  it('is followed until Ctrl-C, which ends it', async () => {
    const stop = new AbortController()
    const io = { ...ioWith({ env }), signal: stop.signal }
    const watching = runProgram(
      ['debug', 'decisions', '--sample', '100%', '--watch', '-o', 'json'],
      io,
    )
    const followed = async () => {
      await enforcer.check('watched')
      return io.written.out
    }
    // The command looks again once a second at the soonest.
    await expect.poll(followed, { timeout: 10_000 }).toContain('"descriptors":["tenant=watched"]')
    stop.abort()
    expect(await watching).toBe(0)
    expect((await call(enforcer, TOKEN, 'GET')).json()).toMatchObject({ sample: 0, until: null })
  })

  it('says what is missing to ask for it', async () => {
    const io = ioWith({
      env: { ...env, QUOTAPLANE_DEBUG_TOKEN: '', XDG_RUNTIME_DIR: '/nonexistent' },
    })
    expect(await runProgram(['debug', 'decisions'], io)).toBe(2)
    expect(io.written.err).toContain('give --debug-token or set QUOTAPLANE_DEBUG_TOKEN')
    const bad = await debug('--sample', '200%')
    expect([bad.exitCode, bad.err]).toEqual([2, expect.stringContaining('such as 1%')])
  })
})
