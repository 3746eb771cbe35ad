import { X509Certificate } from 'node:crypto'
import { copyFile, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { connect } from 'node:tls'
import { sql } from 'kysely'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { NatsLink } from '../../../shared/nats/client.ts'
import { NATS_CERTIFICATES, natsSecurity } from '../../../shared/nats/settings.ts'
import { createDatabase } from '../../../shared/postgres/client.ts'
import { DATABASE_CERTIFICATES, databaseTarget } from '../../../shared/postgres/settings.ts'
import { createRedis } from '../../../shared/redis/client.ts'
import { REDIS_CERTIFICATES, redisTarget } from '../../../shared/redis/settings.ts'
import { PACKAGE_ROOT } from '../../../shared/runtime/assets.ts'
import { CertificateFiles } from '../../../shared/runtime/certificates.ts'
import { Secret } from '../../../shared/runtime/env.ts'
import { createLogger } from '../../../shared/runtime/logger.ts'
import type { CertificateSettings } from '../../../shared/runtime/tls.ts'
import { type Certificates, makeCertificates } from '../../support/certificates.ts'
import { freePorts } from '../../support/free-ports.ts'
import { startNats } from '../../support/nats-server.ts'
import { startPostgres } from '../../support/postgres-server.ts'
import { type ServerProcess, startServer } from '../../support/server-process.ts'

/** Certificates that are replaced while a service runs, as whom it connects and what it listens with. */

const SECONDS = { timeout: 10_000, interval: 20 }
const log = createLogger({ service: 'test', level: 'silent' })

let own: Certificates
let strangers: Certificates
let folder: string

const ofOwn = (file: string): string => join(own.folder, file)

beforeAll(async () => {
  own = await makeCertificates(['server', 'caller', 'renewed'])
  strangers = await makeCertificates(['caller'])
  folder = await mkdtemp(join(tmpdir(), 'quotaplane-renewed-'))
}, 60_000)
afterAll(async () => {
  await Promise.all([own?.remove(), strangers?.remove()])
  await rm(folder, { recursive: true, force: true })
})

const CERT = (): string => join(folder, 'tls.crt')
const KEY = (): string => join(folder, 'tls.key')

async function place({ folder: from }: Certificates, name: string): Promise<void> {
  await copyFile(join(from, `${name}.crt`), CERT())
  await copyFile(join(from, `${name}.key`), KEY())
}

/** Settings that show a caller's certificate, and their files, in which each caller's can be placed. */
async function settingsFor<C extends object>(names: CertificateSettings, rest: C) {
  await place(own, 'caller')
  const { ca, cert, key } = own.of('caller')
  const config = {
    ...rest,
    ...{ [names.ca]: ca, [names.cert]: cert, [names.key]: new Secret(key) },
  }
  const environment = { [`${names.cert}_FILE`]: CERT(), [`${names.key}_FILE`]: KEY() }
  const files = new CertificateFiles({ config, environment, uses: [names], log, wallMs: Date.now })
  const show = async (whose: Certificates): Promise<void> => {
    await place(whose, 'caller')
    await files.readOnce()
  }
  return { live: files.over(config) as C, show }
}

describe('a connection that is made again shows the certificate that is there by then', () => {
  it('to Redis', async () => {
    const [port = 0] = await freePorts(1)
    const server = await startServer(
      'redis-server',
      [
        ...['--port', '0', '--tls-port', String(port), '--bind', '127.0.0.1', '--save', ''],
        ...['--tls-cert-file', ofOwn('server.crt'), '--tls-key-file', ofOwn('server.key')],
        ...['--tls-ca-cert-file', ofOwn('ca.crt'), '--dir', folder],
      ],
      'eady to accept connections',
    )
    const { live, show } = await settingsFor(REDIS_CERTIFICATES, {
      REDIS_URL: `rediss://127.0.0.1:${port}`,
    })
    let failures = 0
    const onError = (): void => void failures++
    const redis = createRedis({ ...redisTarget(live), name: 'test', onError })
    try {
      await expect.poll(() => redis.status, SECONDS).toBe('ready')
      await show(strangers)
      redis.stream.destroy()
      await expect.poll(() => failures, SECONDS).toBeGreaterThan(1)
      expect(redis.status).not.toBe('ready')
      await show(own)
      await expect.poll(() => redis.status, SECONDS).toBe('ready')
    } finally {
      redis.disconnect()
      await server.stop()
    }
  })

  it('to NATS', async () => {
    const file = (name: string): string => `"${ofOwn(name)}"`
    const server = await startNats(
      `tls { cert_file: ${file('server.crt')}, key_file: ${file('server.key')}, ca_file: ${file('ca.crt')}, verify: true }`,
    )
    const { live, show } = await settingsFor(NATS_CERTIFICATES, {})
    const link = new NatsLink({
      url: server.url,
      name: 'test',
      log,
      security: natsSecurity(live),
    })
    const refusals = (): number => server.log().match(/TLS handshake error/g)?.length ?? 0
    try {
      link.start()
      await expect.poll(() => link.isConnected(), SECONDS).toBe(true)
      await show(strangers)
      await server.halt()
      await expect.poll(() => link.isConnected(), SECONDS).toBe(false)
      await server.start()
      await expect.poll(refusals, SECONDS).toBeGreaterThan(0)
      await show(own)
      await expect.poll(() => link.isConnected(), SECONDS).toBe(true)
    } finally {
      await link.close()
      await server.stop()
    }
  })

  it('to Postgres', async () => {
    const [port = 0] = await freePorts(1)
    const server = await startPostgres({ ...own.of('server'), clientCa: own.ca, port })
    const { live, show } = await settingsFor(DATABASE_CERTIFICATES, {
      DATABASE_URL: `postgresql://quota@127.0.0.1:${port}/postgres`,
    })
    const db = createDatabase({ ...databaseTarget(live), poolMax: 2, onIdleError: () => {} })
    // Two at once, so that the second needs a connection of its own.
    const twice = () => Promise.all([1, 2].map(() => sql`select pg_sleep(0.05)`.execute(db)))
    try {
      await sql`select 1`.execute(db)
      await show(strangers)
      await expect(twice()).rejects.toMatchObject({ code: 'QUOTA_DATABASE_UNAVAILABLE' })
      await show(own)
      await twice()
    } finally {
      await db.destroy()
      await server.stop()
    }
  })
})

describe('an enforcer of two processes', () => {
  let service: ServerProcess
  let ports: readonly number[]

  beforeEach(async () => {
    await place(own, 'server')
    ports = await freePorts(2)
    service = await startServer(
      process.execPath,
      [join(PACKAGE_ROOT, 'dist/services/enforcer/main.js')],
      '"msg":"listening"',
      {
        env: {
          PATH: process.env['PATH'],
          REGION: 'us-east-1',
          // Nothing is decided here.
          REDIS_URL: 'redis://127.0.0.1:1',
          ENFORCER_WORKERS: '2',
          ENFORCER_PORT: String(ports[0]),
          ENFORCER_GRPC_PORT: String(ports[1]),
          ENFORCER_TLS_CERT_FILE: CERT(),
          ENFORCER_TLS_KEY_FILE: KEY(),
          SHUTDOWN_DEADLINE_MS: '1000',
        },
      },
    )
    await expect.poll(() => service.log().match(/"msg":"listening"/g), SECONDS).toHaveLength(2)
  }, 30_000)

  const nameOf = (name: string): string => new X509Certificate(own.of(name).cert).subject

  /** Whom it says that it is to several that connect: HTTP and gRPC, and its processes in turn. */
  async function names(): Promise<string[]> {
    const all = [0, 1, 0, 1, 0, 1, 0, 1].map((which) => shownAt(ports[which] ?? 0))
    return [...new Set(await Promise.all(all))]
  }

  function shownAt(port: number): Promise<string> {
    return new Promise((resolve, reject) => {
      const { ca } = own
      const socket = connect({ port, host: '127.0.0.1', ca, ALPNProtocols: ['h2', 'http/1.1'] })
      socket.once('error', reject)
      socket.once('secureConnect', () => {
        const { raw } = socket.getPeerCertificate()
        resolve(new X509Certificate(raw).subject)
        socket.destroy()
      })
    })
  }

  it('shows a renewed certificate over HTTP and gRPC after SIGHUP, and none that cannot be used', async () => {
    expect(await names()).toEqual([nameOf('server')])
    await place(own, 'renewed')
    service.child.kill('SIGHUP')
    await expect.poll(names, SECONDS).toEqual([nameOf('renewed')])
    await writeFile(KEY(), own.of('server').key)
    service.child.kill('SIGHUP')
    const told = 'a renewed certificate cannot be used; keeping the one before'
    await expect.poll(() => service.log().split(told).length - 1, SECONDS).toBe(2)
    expect(await names()).toEqual([nameOf('renewed')])
    await service.stop()
  })
})
