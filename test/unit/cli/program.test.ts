import { describe, expect, it } from 'vitest'
import { AdminRefusal } from '../../../services/cli/admin-client.ts'
import { parseDescriptors } from '../../../services/cli/commands/check.ts'
import { runProgram } from '../../../services/cli/program.ts'
import { ioWith } from './fake-io.ts'

/** Nothing listens on port 2. */
const NOWHERE = 'http://127.0.0.1:2'

async function run(
  args: readonly string[],
  options: Parameters<typeof ioWith>[0] = {},
): Promise<{ exitCode: number; out: string; err: string }> {
  const io = ioWith(options)
  const exitCode = await runProgram(args, io)
  return { exitCode, ...io.written }
}

const COMMANDS = [
  ['up'],
  ['demo'],
  ['domain', 'list'],
  ['domain', 'get'],
  ['domain', 'apply'],
  ['domain', 'delete'],
  ['policy', 'apply'],
  ['policy', 'get'],
  ['policy', 'list'],
  ['policy', 'delete'],
  ['check'],
  ['shares'],
  ['usage'],
  ['usage', 'top'],
  ['usage', 'history'],
  ['region', 'lags'],
  ['audit', 'tail'],
  ['audit', 'export'],
  ['region', 'list'],
  ['region', 'drain'],
  ['region', 'resume'],
  ['region', 'remove'],
  ['token', 'create'],
  ['token', 'list'],
  ['token', 'revoke'],
  ['whoami'],
  ['admin', 'init'],
  ['context', 'set'],
  ['context', 'use'],
  ['context', 'list'],
  ['context', 'delete'],
  ['completion'],
]

/** Commands that print nothing but what they were asked to make. */
const WITHOUT_JSON = new Set(['context set', 'context use', 'context delete', 'completion'])

describe('quotaplane', () => {
  it('says its version', async () => {
    const { exitCode, out } = await run(['--version'])
    expect({ exitCode, out }).toEqual({ exitCode: 0, out: '0.1.0\n' })
  })

  it.each(COMMANDS)('explains %s %s with examples and exits with 0', async (...command) => {
    const words = command.filter((word) => typeof word === 'string')
    const { exitCode, out } = await run([...words, '--help'])
    expect(exitCode).toBe(0)
    expect(out).toContain(`Examples:\n  $ `)
    if (!WITHOUT_JSON.has(words.join(' '))) expect(out).toContain('--json')
  })

  it.each([
    ['an unknown command', ['fly']],
    ['an unknown option', ['up', '--wings']],
    ['a missing argument', ['check', '--domain', 'api']],
    ['a region that could not be registered', ['up', '--regions', 'US East']],
    ['a region named twice', ['up', '--regions', 'us,us']],
    ['a cost that is no whole number', ['check', '--domain', 'api', '--cost', '-1', 'a=b']],
    ['an entry without a value', ['check', '--domain', 'api', 'tenant']],
    ['a policy without its domain', ['policy', 'get', 'per-tenant']],
    ['both a policy and a file to delete', ['policy', 'delete', 'a/b', '-f', 'x.yaml']],
    ['an admin URL that is none', ['policy', 'list', '--admin-url', 'localhost']],
    ['a region that is no name', ['region', 'drain', 'US East']],
    ['a certificate of nobody', ['region', 'remove', 'eu', '--certify', '--reason', 'lost']],
    ['a speed without a trace', ['demo', '--speed', '2']],
  ])('exits with 2 and says why for %s', async (_what, args) => {
    const { exitCode, out, err } = await run(args)
    expect(exitCode).toBe(2)
    expect(out).toBe('')
    expect(err).not.toBe('')
  })

  it('says in one line when admin cannot be reached, and exits with 1', async () => {
    const { exitCode, err } = await run(['policy', 'list', '--admin-url', NOWHERE])
    expect(exitCode).toBe(1)
    expect(err.trim().split('\n')).toEqual([
      `quotaplane: nothing answers at ${NOWHERE}: is the plane up (quotaplane up), or is --admin-url another one?`,
    ])
  })

  it('takes the admin URL from QUOTAPLANE_URL', async () => {
    const { err } = await run(['shares'], { env: { QUOTAPLANE_URL: NOWHERE } })
    expect(err).toContain(NOWHERE)
  })

  it('says in one line when no enforcer answers', async () => {
    const args = ['check', '--domain', 'api', '--enforcer-url', NOWHERE, 'tenant=acme']
    const { exitCode, err } = await run(args)
    expect(exitCode).toBe(1)
    expect(err).toContain(`no enforcer answers at ${NOWHERE}`)
  })

  it('reads no policy half: a bad file is refused before admin is called', async () => {
    const { exitCode, err } = await run(['policy', 'apply', '-f', '-', '--admin-url', NOWHERE], {
      stdin: 'domain: api\nname: x\n',
    })
    expect(exitCode).toBe(1)
    expect(err).toContain('standard input:1: match: is missing')
    expect(err).not.toContain(NOWHERE)
  })
})

describe('a refusal by admin', () => {
  const what = 'PUT /v1/domains/a/policies/b'

  it('is told once for each field, with the fix', () => {
    const errors = [{ field: 'name', message: 'is missing', fix: 'give a name' }]
    const refusal = new AdminRefusal(what, 400, { detail: 'name: is missing', errors })
    expect(refusal.message).toBe('name: is missing (give a name)')
  })

  it('of the whole request is told by its detail', () => {
    expect(new AdminRefusal(what, 404, { detail: 'there is no policy a/b' }).message).toBe(
      'there is no policy a/b',
    )
  })
})

describe('entries of a check', () => {
  it('make one descriptor, and another after each +', () => {
    expect(parseDescriptors(['a=1', 'b=x=y', '+', 'c='])).toEqual([
      {
        entries: [
          { key: 'a', value: '1' },
          { key: 'b', value: 'x=y' },
        ],
      },
      { entries: [{ key: 'c', value: '' }] },
    ])
  })
})

it('who asks to reset one tenant is told what to do instead, ready to be run, and nothing is sent', async () => {
  const { exitCode, err } = await run(
    ['reset', 'api/per-tenant', 'acme', '--reason', 'our fault', '--admin-url', NOWHERE],
    { env: { QUOTAPLANE_TOKEN: 'x' } },
  )
  expect(exitCode).toBe(2)
  expect(err).toContain('quotaplane allow api/per-tenant acme --for')
  expect(err).toContain('quotaplane override set api/per-tenant acme --capacity')
  const help = await run(['reset', '--help'])
  expect(help.out).toContain('Counters of one tenant are not reset alone')
})

it.each(['0x2', '1e3', '2.0', ' 2', '+2'])('the number of a revision is no "%s"', async (text) => {
  const { exitCode, err } = await run(['revision', 'show', text, '--admin-url', NOWHERE])
  expect(exitCode).toBe(2)
  expect(err).toContain('must be a whole number')
})
