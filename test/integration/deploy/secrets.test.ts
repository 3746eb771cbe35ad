import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { inspect } from 'node:util'
import { nkeys } from 'nats'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { adminEnv } from '../../../services/admin/config.ts'
import { enforcerEnv } from '../../../services/enforcer/config.ts'
import { syncEnv } from '../../../services/sync/config.ts'
import { PACKAGE_ROOT } from '../../../shared/runtime/assets.ts'
import { readEnv } from '../../../shared/runtime/env.ts'
import { makeCertificates } from '../../support/certificates.ts'
import { freePorts } from '../../support/free-ports.ts'
import { type NatsServer, startNats } from '../../support/nats-server.ts'
import { type RedisServer, startRedisServer } from '../../support/redis-server.ts'
import { USER_ARGUMENTS } from '../../support/redis-users.ts'
import { type ServerProcess, startServer } from '../../support/server-process.ts'

/**
 * What services write while their servers refuse them, at the most talkative level, and when a setting is wrong: never
 * a secret. Each secret is in one of the forms that it can have.
 */

const SECRET = 'hunter2-correct-horse'
/** As it stands in a URL, where a driver may write it either way. */
const IN_URL = `${SECRET}%2F%40x`
const TOKEN = 'token-of-the-plane-0123456789'
const SENT = 'token-that-somebody-sent-98765'

let folder: string
let redis: RedisServer
let nats: NatsServer
let redisPort: number
let deadPort: number
let key: string
let cert: string
const seed = new TextDecoder().decode(nkeys.createUser().getSeed())

const mainOf = (service: string): string => join(PACKAGE_ROOT, 'dist/services', service, 'main.js')

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'quotaplane-secrets-'))
  ;[redisPort = 0, deadPort = 0] = await freePorts(2)
  redis = await startRedisServer({ port: redisPort, args: USER_ARGUMENTS })
  // Knows other keys than the service's.
  nats = await startNats('authorization { users: [{ user: other, password: other }] }')
  const certificates = await makeCertificates(['service'])
  ;({ key, cert } = certificates.of('service'))
  await certificates.remove()
  await writeFile(join(folder, 'key.pem'), key)
})
afterAll(async () => {
  await redis?.stop()
  await nats?.stop()
  await rm(folder, { recursive: true, force: true })
})

/** Everything that must not be seen: of a key, any line of it. */
function secrets(): string[] {
  const lines = key.split('\n').filter((line) => line.length > 20 && !line.startsWith('-----'))
  return [SECRET, TOKEN, SENT, seed, ...lines]
}

function expectNone(text: string): void {
  for (const secret of secrets())
    expect(text.includes(secret), `${secret} in:\n${text}`).toBe(false)
}

const common = (): Record<string, string | undefined> => ({
  PATH: process.env['PATH'],
  LOG_LEVEL: 'trace',
  NATS_URL: nats.url,
  NATS_NKEY_SEED: seed,
  REGION: 'us-east-1',
  SHUTDOWN_DEADLINE_MS: '2000',
})

/** Starts a service, waits for `refused` in what it writes, and gives all that it wrote to its end. */
async function run(
  service: string,
  env: Record<string, string | undefined>,
  refused: readonly RegExp[],
  use: (url: string) => Promise<unknown> = async () => {},
): Promise<string> {
  const options = { env: { ...common(), ...env } }
  const started: ServerProcess = await startServer(
    process.execPath,
    [mainOf(service)],
    'listening"',
    options,
  )
  try {
    for (const reason of refused) {
      await expect.poll(() => started.log(), { timeout: 10_000 }).toMatch(reason)
    }
    await use(/"url":"([^"]+)"/.exec(started.log())?.[1] ?? '')
  } finally {
    await started.stop()
  }
  return started.log()
}

describe('no secret is in what a service writes', () => {
  it.each([
    ['in the URL', { user: `enforcer:${IN_URL}@` }],
    ['in a setting of its own', { REDIS_USERNAME: 'enforcer', REDIS_PASSWORD: SECRET }],
  ])('of an enforcer that Redis refuses, its password %s', async (_where, given) => {
    const { user = '', ...env } = given as Record<string, string>
    const log = await run(
      'enforcer',
      {
        ...env,
        REDIS_URL: `redis://${user}127.0.0.1:${redisPort}`,
        ENFORCER_PORT: '0',
        ENFORCER_GRPC_PORT: '0',
        ENFORCER_TLS_CERT: cert,
        ENFORCER_TLS_KEY_FILE: join(folder, 'key.pem'),
      },
      [/WRONGPASS|NOAUTH/],
    )
    expectNone(log)
  })

  it('of a daemon that Redis and NATS refuse', async () => {
    const log = await run(
      'sync',
      { REDIS_URL: `redis://sync:${IN_URL}@127.0.0.1:${redisPort}`, SYNC_PORT: '0' },
      [/WRONGPASS|NOAUTH/, /NATS is not reachable/],
    )
    expectNone(log)
  })

  it('of an admin that neither Postgres nor NATS answers, and that is sent a wrong token', async () => {
    const log = await run(
      'admin',
      {
        DATABASE_URL: `postgresql://plane:${IN_URL}@127.0.0.1:${deadPort}/plane`,
        NATS_URL: nats.url.replace('nats://', `nats://admin:${SECRET}@`),
        NATS_NKEY_SEED: undefined,
        QUOTAPLANE_ADMIN_TOKEN: TOKEN,
        ADMIN_HOST: '127.0.0.1',
        ADMIN_PORT: '0',
      },
      [/Postgres|ECONNREFUSED/, /NATS is not reachable/],
      async (url) => {
        for (const token of [SENT, TOKEN]) {
          const headers = { authorization: `Bearer ${token}` }
          const reply = await fetch(`${url}/v1/policies?token=${SENT}`, { headers })
          expect(reply.status).toBeGreaterThanOrEqual(400)
          expectNone(await reply.text())
        }
      },
    )
    expectNone(log)
  })
})

describe('a setting that is wrong', () => {
  it('is named without its content', () => {
    const url = (scheme: string) => `${scheme}://me:${SECRET}@server`
    const bus = { NATS_URL: 'nats://nats' }
    const here = { REGION: 'here', REDIS_URL: 'redis://redis' }
    const readings = [
      () => readEnv(enforcerEnv, { ...here, REDIS_URL: url('http') }),
      () => readEnv(enforcerEnv, { ...here, REDIS_URL: url('redis'), REDIS_PASSWORD: SECRET }),
      () => readEnv(enforcerEnv, { ...here, ENFORCER_TLS_KEY: SECRET, ENFORCER_TLS_CERT: cert }),
      () => readEnv(enforcerEnv, { ...here, ENFORCER_TLS_KEY: key, ENFORCER_TLS_CERT: key }),
      () => readEnv(syncEnv, { ...here, NATS_URL: url('http') }),
      () => readEnv(syncEnv, { ...here, ...bus, NATS_KEY: SECRET }),
      () => readEnv(adminEnv, { ...bus, DATABASE_URL: url('mysql') }),
      () => readEnv(adminEnv, { ...bus, DATABASE_URL: 'none', QUOTAPLANE_ADMIN_TOKEN: TOKEN }),
    ]
    for (const read of readings) {
      const failure = reasonOf(read)
      expect(failure).toMatch(/^ {2}[A-Z_]+: /m)
      expectNone(failure)
    }
  })

  it.each([
    ['enforcer', { REDIS_URL: `redis://me:${SECRET}@redis:port` }],
    ['admin', { DATABASE_URL: `postgresql://me:${SECRET}@db:port/x` }],
  ])('that only the driver finds out is not written either, %s with %o', async (service, env) => {
    const ports = { ENFORCER_PORT: '0', ENFORCER_GRPC_PORT: '0', ADMIN_PORT: '0' }
    const { child, text } = spawnWhole(mainOf(service), { ...common(), ...ports, ...env })
    const ended = once(child, 'exit')
    const told = expect.poll(text, { timeout: 10_000 }).toMatch(/"level":(40|50|60).*(URL|URI)/)
    await Promise.race([ended, told])
    child.kill('SIGTERM')
    await ended
    expect(text()).toMatch(/"level":(40|50|60)/)
    expectNone(text())
  })
})

function reasonOf(read: () => unknown): string {
  try {
    read()
    return 'taken'
  } catch (err) {
    return inspect(err)
  }
}

function spawnWhole(main: string, env: Record<string, string | undefined>) {
  const child = spawn(process.execPath, [main], { env, stdio: ['ignore', 'pipe', 'pipe'] })
  let written = ''
  for (const stream of [child.stdout, child.stderr]) {
    stream.on('data', (chunk: Buffer) => {
      written += chunk.toString()
    })
  }
  return { child, text: () => written }
}
