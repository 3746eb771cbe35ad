import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { runProgram } from '../../../services/cli/program.ts'
import { ioWith } from '../../unit/cli/fake-io.ts'
import { type Admin, startAdmin, TOKEN } from '../admin/admin-harness.ts'

const ID = 'api/tiered'
const TIERS = { pro: { 'per-second': { capacity: 50_000 } } }

let admin: Admin
let env: Record<string, string>
beforeAll(async () => {
  admin = await startAdmin()
  await admin.register('us-east-1', 'eu-west-1')
  const { status } = await admin.create({
    name: 'tiered',
    match: [{ key: 'tiered' }],
    tiers: TIERS,
  })
  expect(status).toBe(201)
  const url = await admin.app.listen({ host: '127.0.0.1', port: 0 })
  env = { QUOTAPLANE_URL: url, QUOTAPLANE_TOKEN: TOKEN }
})
afterAll(() => admin.close())

async function run(...args: readonly string[]) {
  const io = ioWith({ env })
  const exitCode = await runProgram(['override', ...args], io)
  return { exitCode, out: io.written.out.trim(), err: io.written.err }
}

async function listed(): Promise<unknown> {
  const { out } = await run('list', ID, '--json')
  return JSON.parse(out).overrides
}

describe('quotaplane override', () => {
  it('sets each kind of rule, lists them as they are in force, and removes one', async () => {
    const expires = '2099-01-31T00:00:00Z'
    expect(await run('set', ID, 'acme', '--tier', 'pro', '--expires', expires)).toEqual({
      exitCode: 0,
      out: `${ID} acme set`,
      err: '',
    })
    await run('set', ID, 'bravo', '--capacity', 'per-second=12345:23456')
    await run('set', ID, 'a/b c', '--unlimited')
    const denied = await run('set', ID, 'mallory', '--deny', '--json')
    expect(JSON.parse(denied.out)).toMatchObject({ value: 'mallory', deny: true })
    expect(await listed()).toEqual([
      { value: 'a/b c', unlimited: true },
      { value: 'acme', tier: 'pro', expiresAt: '2099-01-31T00:00:00.000Z' },
      { value: 'bravo', limits: { 'per-second': { capacity: 12_345, burst: 23_456 } } },
      { value: 'mallory', deny: true },
    ])
    const { out } = await run('list', ID)
    expect(out.split('\n').map((line) => line.split(/ {2,}/))).toEqual([
      ['value', 'has', 'until'],
      ['a/b c', 'everything'],
      ['acme', 'tier pro', '2099-01-31T00:00:00.000Z'],
      ['bravo', 'per-second 12,345'],
      ['mallory', 'nothing'],
    ])
    expect(await run('remove', ID, 'a/b c')).toMatchObject({ exitCode: 0 })
    expect(await listed()).toHaveLength(3)
  })

  it('puts a rule in place of the one before, and lists more than a page', async () => {
    await run('set', ID, 'acme', '--deny')
    expect(await listed()).toContainEqual({ value: 'acme', deny: true })
    const set = Array.from({ length: 150 }, (_, i) => ({ value: `tenant-${i}`, tier: 'pro' }))
    await admin.call('POST', '/v1/domains/api/policies/tiered/overrides', { set })
    expect(await listed()).toHaveLength(153)
  })

  it.each([
    ['a tier that the policy has not', ['set', ID, 'x', '--tier', 'gold'], 'gold'],
    ['no rule', ['set', ID, 'x'], 'one of --tier'],
    ['two rules', ['set', ID, 'x', '--deny', '--unlimited'], 'one of --tier'],
    ['numbers without a limit', ['set', ID, 'x', '--capacity', '900'], 'limit=tokens'],
    ['a time that is none', ['set', ID, 'x', '--deny', '--expires', 'tomorrow'], 'expiresAt'],
    ['a policy that is not', ['set', 'api/none', 'x', '--deny'], 'none'],
    ['a tenant without one', ['remove', ID, 'nobody'], 'no override of t'],
  ])('says what is wrong with %s, and changes nothing', async (_mistake, args, said) => {
    const before = await listed()
    const { exitCode, out, err } = await run(...args)
    expect({ isOk: exitCode === 0, out }).toEqual({ isOk: false, out: '' })
    expect(err).toContain(said)
    expect(await listed()).toEqual(before)
  })
})
