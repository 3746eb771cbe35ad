import { chmod, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { findServers } from '../../../services/cli/plane/programs.ts'

let bin = ''
beforeEach(async () => {
  bin = await mkdtemp(join(tmpdir(), 'quota-bin-'))
})
afterEach(() => rm(bin, { recursive: true }))

async function program(name: string, script = ''): Promise<void> {
  const path = join(bin, name)
  await writeFile(path, `#!/bin/sh\n${script}\n`)
  await chmod(path, 0o755)
}

/** A PATH that holds only what the test put there. */
function find(options: { isRoot?: boolean; said?: string[] } = {}): ReturnType<typeof findServers> {
  return findServers({
    env: { PATH: bin },
    isRoot: options.isRoot ?? false,
    say: (line) => options.said?.push(line),
  })
}

describe('the servers of a plane', () => {
  it('are those on the PATH, and nothing is installed then', async () => {
    await program('redis-server')
    await program('nats-server')
    await program('brew', 'exit 1')
    const said: string[] = []
    const servers = await find({ said })
    expect(servers).toEqual({
      'redis-server': join(bin, 'redis-server'),
      'nats-server': join(bin, 'nats-server'),
    })
    expect(said).toEqual([])
  })

  it('are installed by the package manager when one is missing, said in one line first', async () => {
    await program('nats-server')
    const redis = join(bin, 'redis-server')
    const script = `/bin/echo "$@" > ${bin}/calls; /bin/echo > ${redis}; /bin/chmod 755 ${redis}`
    await program('brew', script)
    const said: string[] = []
    expect((await find({ said }))['redis-server']).toBe(redis)
    expect(said).toEqual(['Installing redis with brew, as it is not here yet'])
    expect(await readFile(join(bin, 'calls'), 'utf8')).toBe('install redis\n')
  })

  it('are named with the command to type when we may not install them', async () => {
    await program('nats-server')
    await program('apk')
    await expect(find()).rejects.toThrow(
      'redis-server is not installed. Please run: sudo apk add redis',
    )
  })

  it('are named when no package manager is known', async () => {
    await program('nats-server')
    await expect(find()).rejects.toThrow(
      'redis-server is not installed. Install Redis 7 or later and NATS server 2.9 or later',
    )
  })

  it('are named with the command to type and the reason when installing fails', async () => {
    await program('nats-server')
    await program('brew', '/bin/echo no network >&2; exit 1')
    await expect(find()).rejects.toThrow(/Please run: brew install redis\n.*no network/s)
  })
})
