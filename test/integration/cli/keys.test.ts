import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { connect, nkeyAuthenticator } from 'nats'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { runProgram } from '../../../services/cli/program.ts'
import { startNats } from '../../support/nats-server.ts'
import { ioWith } from '../../unit/cli/fake-io.ts'

let folder: string
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'quotaplane-added-'))
})
afterAll(() => rm(folder, { recursive: true, force: true }))

describe('quotaplane keys add', () => {
  it('gives a region keys that the admins and gateways of the plane know, and changes no other', async () => {
    const keys = join(folder, 'keys')
    const run = async (...args: string[]) => {
      const io = ioWith({})
      return { code: await runProgram(['keys', ...args], io), ...io.written }
    }
    const contents = async () =>
      new Map(
        await Promise.all(
          (await readdir(keys)).map(
            async (name) => [name, await readFile(join(keys, name), 'utf8')] as const,
          ),
        ),
      )
    const early = await run('add', '--region', 'ap-south-1', '--to', folder)
    expect(early.code).toBe(1)
    expect(early.err).toContain('has no keys of a plane; make them by `quotaplane keys create`')
    expect((await run('create', '--region', 'us-east-1', '--out', keys)).code).toBe(0)
    const before = await contents()
    expect((await run('add', '--region', 'ap-south-1', '--to', keys)).code).toBe(0)
    const after = await contents()
    for (const [name, content] of before) expect(after.get(name), name).toBe(content)
    const added = [...after.keys()].filter((name) => !before.has(name))
    expect(added).toHaveLength([...before.keys()].filter((name) => /us-east-1/.test(name)).length)
    const server = await startNats(after.get('nats-ap-south-1.conf'))
    for (const [who, isKnown] of [
      ['admin', true],
      ['ap-south-1', true],
      ['us-east-1', false],
    ] as const) {
      const seed = new TextEncoder().encode(after.get(`nats-${who}.seed`)?.trim())
      const authenticator = nkeyAuthenticator(seed)
      const opened = connect({ port: server.port, authenticator, reconnect: false })
      const isIn = await opened.then(
        async (connection) => {
          await connection.close()
          return true
        },
        () => false,
      )
      expect(isIn, who).toBe(isKnown)
    }
    await server.stop()
    const again = await run('add', '--region', 'eu-west-1', 'ap-south-1', '--to', keys)
    expect(again.code).toBe(1)
    expect(again.err).toMatch(/has debug-ap-south-1.token already; to renew the keys of ap-south-1/)
    expect(await contents()).toEqual(after)
  })
})
