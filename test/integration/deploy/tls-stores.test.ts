import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Redis } from 'ioredis'
import { sql } from 'kysely'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createDatabase } from '../../../shared/postgres/client.ts'
import { databaseTarget } from '../../../shared/postgres/settings.ts'
import { createRedis, createSingleConnection } from '../../../shared/redis/client.ts'
import { redisTarget } from '../../../shared/redis/settings.ts'
import { Secret } from '../../../shared/runtime/env.ts'
import { type Certificates, makeCertificates } from '../../support/certificates.ts'
import { freePorts } from '../../support/free-ports.ts'
import { type PostgresServer, startPostgres } from '../../support/postgres-server.ts'
import { type ServerProcess, startServer } from '../../support/server-process.ts'

/** What our services connect to: a region's Redis and the plane's Postgres, both of which ask for certificates. */

interface Shown {
  readonly ca: string
  readonly cert?: string
  readonly key?: string
}

let own: Certificates
let strangers: Certificates

beforeAll(async () => {
  own = await makeCertificates(['server', 'caller'], ['late'])
  strangers = await makeCertificates(['caller'])
}, 60_000)
afterAll(async () => {
  await Promise.all([own?.remove(), strangers?.remove()])
})

const secretOf = (key: string | undefined) => (key === undefined ? undefined : new Secret(key))
const codeOf = (err: unknown): string =>
  err instanceof Error && 'code' in err && typeof err.code === 'string' ? err.code : String(err)

describe('TLS to Redis', () => {
  let servers: ServerProcess[] = []
  let port: number
  let latePort: number
  let sentinelPort: number

  const tlsArguments = (listen: number | undefined, certificate: string): string[] => [
    ...['--port', '0', '--tls-port', String(listen), '--bind', '127.0.0.1', '127.0.0.2'],
    ...['--tls-cert-file', join(own.folder, `${certificate}.crt`)],
    ...['--tls-key-file', join(own.folder, `${certificate}.key`)],
    ...['--tls-ca-cert-file', join(own.folder, 'ca.crt'), '--save', '', '--dir', own.folder],
  ]

  beforeAll(async () => {
    ;[port = 0, latePort = 0, sentinelPort = 0] = await freePorts(3)
    const config = join(own.folder, 'sentinel.conf')
    await writeFile(config, `sentinel monitor region 127.0.0.1 ${port} 1\ntls-replication yes\n`)
    const ready = 'eady to accept connections'
    servers = await Promise.all([
      startServer('redis-server', tlsArguments(port, 'server'), ready),
      startServer('redis-server', tlsArguments(latePort, 'late'), ready),
      startServer(
        'redis-server',
        [config, '--sentinel', ...tlsArguments(sentinelPort, 'server')],
        '+monitor master',
      ),
    ])
  })
  afterAll(async () => {
    await Promise.all(servers.map((server) => server.stop()))
  })

  /** PONG, or why the connection failed. */
  async function ping(url: string, shown: Shown): Promise<string> {
    const target = redisTarget({
      REDIS_URL: url,
      REDIS_CA: shown.ca,
      REDIS_CERT: shown.cert,
      REDIS_KEY: secretOf(shown.key),
    })
    const failures: unknown[] = []
    const onError = (err: Error): void => void failures.push(err)
    const redis: Redis = createSingleConnection({ ...target, name: 'test', onError })
    try {
      await redis.connect()
      return await redis.ping()
    } catch (err) {
      return codeOf(failures[0] ?? err)
    } finally {
      redis.disconnect()
    }
  }

  it('connects with a certificate that the server asks for, by address and by name', async () => {
    expect(await ping(`rediss://127.0.0.1:${port}`, own.of('caller'))).toBe('PONG')
    expect(await ping(`rediss://localhost:${port}`, own.of('caller'))).toBe('PONG')
  })

  it('is let in neither without a certificate nor with one of another authority, nor when its time is over', async () => {
    const url = `rediss://127.0.0.1:${port}`
    for (const shown of [
      { ca: own.ca },
      own.of('late'),
      { ...strangers.of('caller'), ca: own.ca },
    ]) {
      expect(await ping(url, shown)).toMatch(/ALERT|ECONNRESET|EPIPE|Connection is closed/)
    }
  })

  it('believes neither another authority, nor a certificate whose time is over, nor another name', async () => {
    const caller = own.of('caller')
    const strange = { ...caller, ca: strangers.ca }
    expect(await ping(`rediss://127.0.0.1:${port}`, strange)).toMatch(/^(SELF_SIGNED|UNABLE_TO)/)
    expect(await ping(`rediss://127.0.0.1:${latePort}`, caller)).toBe('CERT_HAS_EXPIRED')
    const elsewhere = `rediss://127.0.0.2:${port}`
    expect(await ping(elsewhere, caller)).toBe('ERR_TLS_CERT_ALTNAME_INVALID')
  })

  it('speaks TLS to sentinels and to the master that they name', async () => {
    const url = `rediss+sentinel://127.0.0.1:${sentinelPort}/region`
    expect(await ping(url, own.of('caller'))).toBe('PONG')
    expect(await ping(url, { ca: own.ca })).not.toBe('PONG')
  })

  it('comes back by itself, over TLS again', async () => {
    const { cert, key, ca } = own.of('caller')
    const redis = createRedis({
      url: `rediss://127.0.0.1:${port}`,
      tls: { ca, cert, key: new Secret(key) },
      name: 'lasting',
      onError: () => {},
    })
    await expect.poll(() => redis.status).toBe('ready')
    redis.stream.destroy()
    await expect.poll(() => redis.status).not.toBe('ready')
    await expect.poll(() => redis.status, { timeout: 5_000 }).toBe('ready')
    expect(await redis.ping()).toBe('PONG')
    redis.disconnect()
  })
})

describe('TLS to Postgres', () => {
  let servers: PostgresServer[] = []
  let port: number
  let latePort: number

  beforeAll(async () => {
    ;[port = 0, latePort = 0] = await freePorts(2)
    const late = { ...own.of('late'), clientCa: own.ca, port: latePort }
    const inTime = { ...own.of('server'), clientCa: own.ca, port }
    servers = await Promise.all([startPostgres(inTime), startPostgres(late)])
  }, 60_000)
  afterAll(async () => {
    await Promise.all(servers.map((server) => server.stop()))
  })

  /** `true` when the connection is encrypted, or why it failed. */
  async function ask(url: string, shown: Shown | null): Promise<string> {
    const target = databaseTarget({
      DATABASE_URL: url,
      DATABASE_CA: shown?.ca,
      DATABASE_CERT: shown?.cert,
      DATABASE_KEY: secretOf(shown?.key),
    })
    const db = createDatabase<unknown>({ ...target, poolMax: 1, onIdleError: () => {} })
    try {
      const found = sql<{ ssl: boolean }>`select ssl from pg_stat_ssl where pid = pg_backend_pid()`
      return String((await found.execute(db)).rows[0]?.ssl)
    } catch (err) {
      const { cause } = err as Error
      return cause instanceof Error && 'code' in cause ? `${cause.code} ${cause}` : String(cause)
    } finally {
      await db.destroy()
    }
  }
  const at = (host: string, on: number, rest = ''): string =>
    `postgresql://quota@${host}:${on}/postgres${rest}`

  it('connects with a certificate that the server asks for, by address and by name', async () => {
    expect(await ask(at('127.0.0.1', port), own.of('caller'))).toBe('true')
    expect(await ask(at('localhost', port, '?sslmode=verify-full'), own.of('caller'))).toBe('true')
  })

  it('is let in neither without TLS nor without a certificate of the authority, nor when its time is over', async () => {
    expect(await ask(at('127.0.0.1', port), null)).toMatch(/^28000 /)
    for (const shown of [
      { ca: own.ca },
      own.of('late'),
      { ...strangers.of('caller'), ca: own.ca },
    ]) {
      expect(await ask(at('127.0.0.1', port), shown)).toMatch(/^28000 |ALERT|ECONNRESET|terminated/)
    }
  })

  it('believes neither another authority, nor a certificate whose time is over, nor another name', async () => {
    const caller = own.of('caller')
    const strange = { ...caller, ca: strangers.ca }
    expect(await ask(at('127.0.0.1', port), strange)).toMatch(/^(SELF_SIGNED|UNABLE_TO)/)
    expect(await ask(at('127.0.0.1', latePort), caller)).toMatch(/^CERT_HAS_EXPIRED/)
    const tls = databaseTarget({ DATABASE_URL: at('10.1.2.3', 1), DATABASE_CA: own.ca }).tls
    const subject = { subject: { CN: 'server' }, subjectaltname: 'IP Address:127.0.0.1' }
    expect(tls?.checkServerIdentity?.('localhost', subject as never)).toBeInstanceOf(Error)
  })
})
