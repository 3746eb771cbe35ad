import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { runProgram } from '../../../services/cli/program.ts'
import { ioWith } from '../../unit/cli/fake-io.ts'
import { type Admin, startAdmin, TOKEN } from '../admin/admin-harness.ts'

let admin: Admin
let env: Record<string, string>
beforeAll(async () => {
  admin = await startAdmin()
  await admin.register('us-east-1', 'eu-west-1')
  await admin.create()
  const url = await admin.app.listen({ host: '127.0.0.1', port: 0 })
  env = { QUOTAPLANE_URL: url, QUOTAPLANE_TOKEN: TOKEN }
})
afterAll(() => admin.close())

async function run(stdin: string, ...args: readonly string[]) {
  const io = ioWith({ env, stdin })
  const exitCode = await runProgram(args, io)
  return { exitCode, out: io.written.out, err: io.written.err }
}

const domain = (...args: readonly string[]) => run('', 'domain', ...args)

describe('quotaplane domain', () => {
  it('describes a domain step by step, and shows what is said of it', async () => {
    expect((await domain('list')).out).toMatch(/^api +1$/m)
    const told = await domain('apply', 'api', '--description', 'Ask Ada', '--reason', 'new owner')
    expect(told.out).toMatch(/^domain api updated \(revision \d+\)$/m)
    await domain('apply', 'api', '--labels', 'team=api,stage=live')
    const { out } = await domain('get', 'api')
    expect(out).toBe(
      'kind: domain\ndomain: api\ndescription: Ask Ada\nlabels:\n  team: api\n  stage: live\n',
    )
    expect((await domain('list', '-l', 'team=api')).out).toContain('Ask Ada')
    expect((await domain('list', '-l', 'team=web', '-o', 'name')).out).toBe('')
  })

  it('applies what get and export print, together with policies', async () => {
    const { out } = await domain('get', 'api')
    const again = await run(out, 'domain', 'apply', '-f', '-')
    expect(again.out).toMatch(/^domain api unchanged/m)
    const exported = await run('', 'export')
    const all = await run(exported.out, 'apply', '-f', '-')
    expect(all.out).toMatch(/^domain api unchanged .*\napi\/per-tenant unchanged/m)
    const fewer = out.replace('Ask Ada', 'Ask nobody')
    const diff = await run(fewer, 'diff', '-f', '-')
    expect(diff).toMatchObject({ exitCode: 1 })
    expect(diff.out).toContain('-description: Ask Ada\n+description: Ask nobody')
  })

  it('plans and deletes one that is empty, and says why another is not', async () => {
    await domain('apply', 'empty', '--description', 'soon gone')
    const planned = await domain('delete', 'empty', '--dry-run')
    expect(planned.out).toContain('Dry run: nothing was changed.')
    expect((await domain('delete', 'empty')).out).toBe('domain empty deleted\n')
    const refused = await domain('delete', 'api')
    expect(refused).toMatchObject({ exitCode: 1 })
    expect(refused.err).toContain('api/per-tenant')
  })

  it.each([
    ['kind: domain\ndomain: api\ndescripton: x\n', 3, 'descripton: is not a field'],
    [
      'kind: domian\ndomain: api\n',
      1,
      'kind: "domian" is no kind of document (give policy or domain',
    ],
    ['# whose\nkind: domain\nlabels: { team: "a b" }\ndomain: api\n', 3, 'labels.team: "a b"'],
    ['kind: domain\n', 1, 'domain: is missing'],
  ])('names file, line and field of what is wrong in %j', async (file, line, message) => {
    const refused = await run(file, 'apply', '-f', '-')
    expect(refused).toMatchObject({ exitCode: 1, out: '' })
    expect(refused.err).toContain(`standard input:${line}: ${message}`)
  })

  it.each([
    [['apply']],
    [['apply', 'api']],
    [['apply', 'api', '-f', '-', '--description', 'x']],
    [['apply', 'no domain', '--description', 'x']],
    [['apply', 'api', '--labels', 'team']],
    [['get', '../policies']],
  ])('exits with 2 and says why for domain %j', async (args) => {
    const refused = await domain(...args)
    expect(refused).toMatchObject({ exitCode: 2, out: '' })
    expect(refused.err).not.toBe('')
  })
})

describe('a token that is limited to a domain', () => {
  it('lists, exports and watches over that domain', async () => {
    const made = await run(
      '',
      'token',
      'create',
      'api',
      '--scopes',
      'quota:read',
      '--domains',
      'api',
    )
    const root = env
    env = { ...root, QUOTAPLANE_TOKEN: made.out.trim() }
    for (const verb of [['policy', 'list'], ['export'], ['shares'], ['usage']]) {
      const shown = await run('', ...verb, '--domain', 'api')
      expect(shown, verb.join(' ')).toMatchObject({ exitCode: 0, err: '' })
      expect(shown.out, verb.join(' ')).toMatch(/api|limit/)
      expect((await run('', ...verb, '--domain', 'web')).exitCode, verb.join(' ')).toBe(1)
    }
    env = root
  })
})

describe('a refusal', () => {
  it.each([
    [['region', 'remove', 'us-east-1'], 'quotaplane region drain us-east-1'],
    [['rollback', '9999'], 'quotaplane revision list'],
  ])('of %j names commands and no routes', async (args, command) => {
    const { err } = await run('', ...args)
    expect(err).toContain(command)
    expect(err).not.toContain('/v1/')
  })

  it.each([
    [['override', 'set', 'api/per-tenant', 'acme'], 'one of --tier, --capacity'],
    [['override', 'set', 'api/per-tenant', 'acme', '--deny', '--unlimited'], 'one of --tier'],
    [['block', 'api/per-tenant', 'x', '--for', '8d', '--reason', 'y'], 'at most 7d'],
  ])('of %j is told before admin is asked', async (args, message) => {
    const refused = await run('', ...args)
    expect(refused).toMatchObject({ exitCode: 2, out: '' })
    expect(refused.err).toContain(message)
  })

  it.each([
    ['audit', 'tail', '--since', 'yesterday'],
    ['usage', 'history', 'api/per-tenant', '--from', 'yesterday'],
  ])('of a time says how to write it: %s %s', async (...args) => {
    const { err } = await run('', ...args.map(String))
    expect(err).toContain('2027-01-31T00:00:00Z')
  })
})

describe('an emergency action', () => {
  it('is told of wherever the numbers that it changes are shown', async () => {
    const forAnHour = ['--for', '1h', '--reason', 'database is slow']
    await run('', 'limit', 'fix', 'api/per-tenant', '500', ...forAnHour)
    await admin.follower.stepOnce()
    const told = /emergency action (\d+)/
    expect((await run('', 'policy', 'list')).out).toMatch(told)
    const explained = await run('', 'explain', '--descriptor', 'tenant=acme', '--domain', 'api')
    expect(explained.out).toMatch(
      /500 per 1,000 ms \(token_bucket, from policy, emergency action \d+/,
    )
  })
})
