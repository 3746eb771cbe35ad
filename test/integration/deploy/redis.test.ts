import { readFileSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Redis } from 'ioredis'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { redisUsers } from '../../../services/cli/keys/redis-users.ts'
import { writeKeys } from '../../../services/cli/keys/write-keys.ts'
import { SCRIPTS } from '../../../shared/redis/scripts.ts'
import { type RedisServer, startRedisServer } from '../../support/redis-server.ts'

/**
 * A redis-server with the shipped configuration and the users of `keys create`. That the services work as these users
 * is what test/integration/enforcer, sync and redis/cluster.test.ts show, whose services are them too.
 */

const REGION = 'us-east-1'

let folder: string
let server: RedisServer
const clients: Redis[] = []

const passwordOf = (user: string): string =>
  readFileSync(join(folder, `redis-${REGION}-${user}.password`), 'utf8').trim()
function connect(username?: string, password?: string): Redis {
  const login = username === undefined ? {} : { username, password: password ?? '' }
  const redis = new Redis({ path: server.url, ...login, enableReadyCheck: false })
  redis.on('error', () => {})
  clients.push(redis)
  return redis
}

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'quotaplane-redis-keys-'))
  await writeKeys(folder, [REGION])
  server = await startRedisServer({
    config: 'deploy/redis/redis.conf',
    args: ['--aclfile', join(folder, `redis-${REGION}.acl`)],
  })
})
afterAll(async () => {
  for (const client of clients) client.disconnect()
  await server?.stop()
  await rm(folder, { recursive: true, force: true })
})

/** `OK`, or what Redis said; asks whether it would be allowed and does not do it. */
async function dryRun(user: string, ...command: string[]): Promise<string> {
  const operator = connect('operator', passwordOf('operator'))
  const said = String(await operator.call('ACL', 'DRYRUN', user, ...command))
  operator.disconnect()
  return said
}

describe('deploy/redis', () => {
  it('keeps what is written, and refuses to write rather than evict', async () => {
    const operator = connect('operator', passwordOf('operator'))
    expect(await operator.config('GET', 'appendonly')).toEqual(['appendonly', 'yes'])
    const policy = await operator.config('GET', 'maxmemory-policy')
    expect(policy).toEqual(['maxmemory-policy', 'noeviction'])
  })

  it('has in users.acl what keys create writes, but for the passwords', () => {
    const shipped = readFileSync('deploy/redis/users.acl', 'utf8')
    expect(shipped).toBe(redisUsers((user) => `SHA256_OF_THE_PASSWORD_OF_${user.toUpperCase()}`))
    const written = readFileSync(join(folder, `redis-${REGION}.acl`), 'utf8')
    expect(written.replaceAll(/#\S+/g, '#')).toBe(shipped.replaceAll(/#\S+/g, '#'))
    for (const user of ['enforcer', 'sync', 'operator']) {
      expect(written).not.toContain(passwordOf(user))
    }
  })

  it('lets nobody in without a name, or by the password of another', async () => {
    await expect(connect().get('c:{04s}1')).rejects.toThrow('NOAUTH')
    const wrong = connect('sync', passwordOf('enforcer'))
    await expect(wrong.get('c:{04s}1')).rejects.toThrow(/WRONGPASS|NOAUTH/)
    const health = connect('health', 'any')
    expect(await health.ping()).toBe('PONG')
    await expect(health.get('c:{04s}1')).rejects.toThrow('NOPERM')
    await expect(health.info()).rejects.toThrow('NOPERM')
  })

  it.each(['enforcer', 'sync'])('lets %s do no harm beyond its work', async (user) => {
    const service = connect(user, passwordOf(user))
    expect(await service.ping()).toBe('PONG')
    for (const [command = '', ...args] of [
      ['FLUSHALL'],
      ['FLUSHDB'],
      ['CONFIG', 'SET', 'maxmemory', '1'],
      ['CONFIG', 'GET', 'requirepass'],
      ['KEYS', '*'],
      ['SCAN', '0'],
      ['EVAL', 'return 1', '0'],
      ['SCRIPT', 'FLUSH'],
      ['SCRIPT', 'KILL'],
      ['FUNCTION', 'FLUSH'],
      ['SHUTDOWN'],
      ['MONITOR'],
      ['ACL', 'LIST'],
      ['CLIENT', 'KILL', 'TYPE', 'normal'],
      ['REPLICAOF', 'NO', 'ONE'],
      ['BGREWRITEAOF'],
      ['SWAPDB', '0', '1'],
      ['GET', 'something'],
      ['SET', 'something', '1'],
      ['PUBLISH', 'something', '1'],
      ['SUBSCRIBE', 'something'],
    ]) {
      await expect(service.call(command, ...args), command).rejects.toThrow('NOPERM')
    }
  })

  it('lets an enforcer read policies, and neither write them nor act as the daemon', async () => {
    expect(await dryRun('enforcer', 'HMGET', 'qp:{qp}:region', 'version')).toBe('OK')
    expect(await dryRun('enforcer', 'HKEYS', 'qp:{qp}:policies')).toBe('OK')
    expect(await dryRun('enforcer', 'HMGET', 'qp:{qp}:policies', '1')).toBe('OK')
    expect(await dryRun('enforcer', 'ZRANGEBYSCORE', 'qp:{qp}:versions', '1', '2')).toBe('OK')
    for (const [command = '', key = '', ...args] of [
      ['HSET', 'qp:{qp}:region', 'version', '1'],
      ['HSET', 'qp:{qp}:policies', '1', '{}'],
      ['ZADD', 'qp:{qp}:versions', '1', '1'],
      ['HKEYS', 'qp:{qp}:plane'],
      ['SET', 'qp:{qp}:leader', 'me'],
      ['SET', 'qp:{qp}:fence', '1'],
      ['HSET', 'qp:{qp}:pairs', 'eu-west-1', '{}'],
      ['HSET', 'l:{04s}', 'counter', '{}'],
      ['HKEYS', 'l:{04s}'],
      ['SCRIPT', 'LOAD', 'return 1'],
    ]) {
      expect(await dryRun('enforcer', command, key, ...args), `${command} ${key}`).not.toBe('OK')
    }
  })

  it('lets each service run every command of the scripts that it calls', async () => {
    for (const [name, { loader, includes }] of Object.entries(SCRIPTS)) {
      const user = loader === 'serve' ? 'enforcer' : 'sync'
      const commands = commandsOf(name, ...includes)
      for (const command of commands) {
        const said = await dryRun(user, command, ...(ARGUMENTS[command] ?? ['c:{04s}1', '1', '1']))
        expect(said, `${name}: ${command}`).toBe('OK')
      }
    }
  })
})

/** Where a command does not take a key and two values. */
const ARGUMENTS: Readonly<Record<string, readonly string[]>> = {
  ...{
    TIME: [],
    INFO: ['replication'],
    PUBLISH: ['qp:news', 'x'],
    SETRANGE: ['c:{04s}1', '0', '1'],
  },
  ...{
    GET: ['c:{04s}1'],
    MGET: ['m:{04s}', 'c:{04s}1'],
    DEL: ['c:{04s}1'],
    SCARD: ['h:{04s}'],
    HKEYS: ['l:{04s}'],
    HLEN: ['qp:{qp}:policies'],
    ZCARD: ['qp:{qp}:versions'],
  },
  ...{
    SET: ['c:{04s}1', '1'],
    HGET: ['l:{04s}', 'a'],
    SPOP: ['h:{04s}', '1'],
    ZADD: ['qp:{qp}:versions', '1', '7'],
    EXPIRE: ['u:{04s}', '1'],
  },
}

function commandsOf(...files: readonly string[]): ReadonlySet<string> {
  const all = files.flatMap((file) => {
    if (file === 'algorithms') return ALGORITHMS
    return [file]
  })
  const texts = all.map((file) => readFileSync(`lua/${file}.lua`, 'utf8'))
  const found = texts.flatMap((text) => [...text.matchAll(/\bp?call\(\s*'([A-Z]+)'/g)])
  return new Set(found.map(([, command = '']) => command))
}

const ALGORITHMS = [
  ...['_concurrency', '_estimate', '_fixed-window', '_leaky-bucket', '_sliding-counter'],
  ...['_sliding-log', '_sliding-window', '_stock', '_token-bucket'],
]
