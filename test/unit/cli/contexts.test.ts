import { chmodSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { runProgram } from '../../../services/cli/program.ts'
import { adminOf, enforcerUrlOf } from '../../../services/cli/settings.ts'
import { serve } from '../client/http-server.ts'
import { ioWith } from './fake-io.ts'

let folder = ''
let file = ''
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'quota-contexts-'))
  file = join(folder, 'quotaplane', 'contexts.yaml')
})
afterEach(() => rmSync(folder, { recursive: true }))

async function run(args: readonly string[], options: { env?: object; stdin?: string } = {}) {
  const io = ioWith({ ...options, env: { XDG_CONFIG_HOME: folder, ...options.env } })
  const exitCode = await runProgram(args, io)
  return { exitCode, ...io.written }
}

const set = (name: string, ...more: readonly string[]) =>
  run(['context', 'set', name, '--admin-url', `https://${name}.example`, ...more])

const urlIn = (env: Record<string, string> = {}, flags = {}): string =>
  adminOf(flags, ioWith({ env: { XDG_CONFIG_HOME: folder, ...env } })).url

describe('contexts', () => {
  it('say which plane commands talk to: flag, environment, then the current one', async () => {
    await set('prod')
    await set('stage')
    expect(urlIn()).toBe('https://prod.example')
    await run(['context', 'use', 'stage'])
    expect(urlIn()).toBe('https://stage.example')
    expect(urlIn({ QUOTAPLANE_CONTEXT: 'prod' })).toBe('https://prod.example')
    expect(urlIn({ QUOTAPLANE_CONTEXT: 'prod' }, { context: 'stage' })).toBe(
      'https://stage.example',
    )
    expect(urlIn({ QUOTAPLANE_URL: 'http://given' })).toBe('http://given')
    await run(['context', 'use', '-'])
    expect(urlIn()).toBe('http://127.0.0.1:7070')
  })

  it('send a token to its own plane and to no other', async () => {
    const seen: (string | undefined)[] = []
    const plane = await serve((_turn, res, req) => {
      seen.push(req.headers.authorization)
      res.end('{}')
    })
    await run(['context', 'set', 'prod', '--admin-url', plane.url, '--token', '-'], {
      stdin: 'mine\n',
    })
    await run(['whoami'])
    await run(['whoami', '--admin-url', plane.url])
    expect(seen).toEqual(['Bearer mine', undefined])
    writeFileSync(join(folder, 'token'), 'fresh\n')
    await run([
      'context',
      'set',
      'prod',
      '--admin-url',
      plane.url,
      '--token-file',
      join(folder, 'token'),
    ])
    await run(['whoami'])
    expect(seen.at(-1)).toBe('Bearer fresh')
    await plane.close()
  })

  it('are kept in a file that only its owner may read, and are not believed in another', async () => {
    await set('prod', '--token', 'secret')
    expect(statSync(file).mode & 0o777).toBe(0o600)
    expect((await run(['context', 'list'])).out).not.toContain('secret')
    chmodSync(file, 0o644)
    const { exitCode, err } = await run(['context', 'list'])
    expect(exitCode).toBe(1)
    expect(err).toContain(`chmod 600 ${file}`)
  })

  it('are listed with the current one marked, and forgotten by name', async () => {
    await set('prod')
    await set('stage')
    expect((await run(['context', 'list'])).out).toMatch(/^\* +prod +https:\/\/prod\.example/m)
    await run(['context', 'delete', 'prod'])
    expect(readFileSync(file, 'utf8')).not.toContain('prod')
    expect((await run(['context', 'list'])).out).not.toContain('*')
  })

  it('name the enforcer that checks go to', async () => {
    await set('prod', '--enforcer-url', 'http://enforcer.example')
    const io = ioWith({ env: { XDG_CONFIG_HOME: folder } })
    expect(enforcerUrlOf({}, io)).toBe('http://enforcer.example')
  })

  it.each([
    ['an unknown context', ['context', 'use', 'gone'], 2, 'there are none yet'],
    ['a name that is none', ['context', 'set', 'a b', '--admin-url', 'http://x'], 2, 'usable name'],
    ['a URL that is none', ['context', 'set', 'x', '--admin-url', 'ftp://x'], 2, 'ftp://x'],
    ['a name of the prototype', ['context', 'use', 'constructor'], 2, 'no context constructor'],
  ])('refuse %s', async (_what, args, exitCode, message) => {
    const done = await run(args)
    expect(done.exitCode).toBe(exitCode)
    expect(done.err).toContain(message)
  })

  it('say what is wrong with a field, and nothing of a token', async () => {
    await set('prod')
    const saying = async (field: string): Promise<string> => {
      writeFileSync(file, `contexts: { prod: { adminUrl: https://a.example, ${field} } }\n`)
      return (await run(['context', 'list'])).err
    }
    expect(await saying('tokenFile: 5')).toContain('contexts.prod.tokenFile: must be a text')
    expect(await saying('enforcerUrl: 5')).toContain('enforcerUrl: must be a text, not 5')
    expect(await saying('token: [c0ffee]')).toMatch(/contexts\.prod\.token: must be a text\s*$/)
  })

  it('say where a damaged file is wrong', async () => {
    await set('prod')
    writeFileSync(file, 'contexts: { prod: { adminUrl: 5 } }\n')
    expect((await run(['context', 'list'])).err).toContain('contexts.prod.adminUrl')
  })
})
