import { execFile } from 'node:child_process'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { credentials } from '@grpc/grpc-js'
import { Agent, request } from 'undici'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { QuotaClient } from '../../../client/quota-client.ts'
import { createSyncApp } from '../../../services/sync/app.ts'
import { PACKAGE_ROOT } from '../../../shared/runtime/assets.ts'
import { Secret } from '../../../shared/runtime/env.ts'
import { createLogger } from '../../../shared/runtime/logger.ts'
import { createRegistry } from '../../../shared/runtime/metrics.ts'
import { type Certificates, makeCertificates } from '../../support/certificates.ts'
import { officialClient } from '../../support/rls-client.ts'
import { startAdmin } from '../admin/admin-harness.ts'
import { aPolicy, startRegion, type TestRegion } from '../enforcer/region.ts'

/** What our own services listen with: HTTP of all three, gRPC of the enforcer. */

interface Shown {
  readonly ca: string
  readonly cert?: string
  readonly key?: string
}

const run = promisify(execFile)
const CLI = join(PACKAGE_ROOT, 'dist/services/cli/main.js')

const CHECK = { domain: 'api', descriptors: [{ entries: [{ key: 'tenant', value: 'acme' }] }] }

let own: Certificates
let strangers: Certificates
let region: TestRegion
let urls: Readonly<Record<string, string>>
let grpcPort: number
const closers: (() => Promise<unknown>)[] = []

const urlOf = (address: unknown): string => `https://127.0.0.1:${(address as AddressInfo).port}`

beforeAll(async () => {
  own = await makeCertificates(['server', 'caller'], ['late'])
  strangers = await makeCertificates(['caller'])
  const { cert, key } = own.of('server')
  const tls = { cert, key: new Secret(key), clientCa: own.ca }
  region = await startRegion([aPolicy({ limits: [{ capacity: 1_000_000 }] })])
  const enforcer = await region.startEnforcer({ tls })
  await enforcer.app.listen({ host: '127.0.0.1', port: 0 })
  const grpc = await enforcer.listenGrpc('127.0.0.1', 0)
  grpcPort = grpc.port
  const admin = await startAdmin({ tls })
  await admin.app.listen({ host: '127.0.0.1', port: 0 })
  const sync = createSyncApp({
    service: { daemon: { phase: 'standby' }, memory: {}, feed: {} } as never,
    isBusConnected: () => true,
    clock: { monotonicMs: () => 0 } as never,
    isRunning: () => true,
    registry: createRegistry({}, false),
    log: createLogger({ service: 'test', level: 'silent' }),
    tls,
  })
  await sync.listen({ host: '127.0.0.1', port: 0 })
  closers.push(
    () => sync.close(),
    admin.close,
    () => grpc.drain(1_000),
  )
  urls = {
    enforcer: urlOf(enforcer.app.server.address()),
    admin: urlOf(admin.app.server.address()),
    sync: urlOf(sync.server.address()),
  }
}, 60_000)

afterAll(async () => {
  await Promise.all(closers.map((close) => close()))
  await region?.stop()
  await Promise.all([own?.remove(), strangers?.remove()])
})

/** The answer's status, or the reason why there was none. */
async function livez(url: string, shown: Shown): Promise<number | string> {
  const dispatcher = new Agent({ connect: { ...shown } })
  try {
    const reply = await request(`${url}/livez`, { dispatcher })
    await reply.body.dump()
    return reply.statusCode
  } catch (err) {
    return err instanceof Error && 'code' in err ? String(err.code) : String(err)
  } finally {
    await dispatcher.destroy()
  }
}

/** An alert of the server's, or the end of the connection that comes before it. */
const REFUSED = /^(ERR_SSL_\w*ALERT\w*|ECONNRESET|EPIPE|UND_ERR_SOCKET)$/

describe.each(['enforcer', 'admin', 'sync'])('HTTP of the %s under TLS', (service) => {
  const ask = (shown: Shown) => livez(urls[service] ?? '', shown)

  it('answers a caller whose certificate is of the named authority', async () => {
    expect(await ask(own.of('caller'))).toBe(200)
  })

  it('refuses a caller without a certificate, with one whose time is over, or of another authority', async () => {
    expect(await ask({ ca: own.ca })).toMatch(REFUSED)
    expect(await ask(own.of('late'))).toMatch(REFUSED)
    expect(await ask({ ...strangers.of('caller'), ca: own.ca })).toMatch(REFUSED)
  })

  it('is not believed by a caller who trusts another authority, nor under another name', async () => {
    expect(await ask({ ...own.of('caller'), ca: strangers.ca })).toMatch(/^(SELF_SIGNED|UNABLE_TO)/)
    const other = new Agent({ connect: { ...own.of('caller'), servername: 'other.example' } })
    const asked = request(`${urls[service]}/livez`, { dispatcher: other })
    await expect(asked).rejects.toMatchObject({ code: 'ERR_TLS_CERT_ALTNAME_INVALID' })
    await other.destroy()
  })

  it('speaks no plain HTTP on that port', async () => {
    const plain = (urls[service] ?? '').replace('https:', 'http:')
    await expect(request(`${plain}/livez`)).rejects.toThrow()
  })
})

describe('checks under TLS', () => {
  it('are decided for the client of an application that shows its certificate, and for no other', async () => {
    const decide = async (tls: Shown): Promise<string> => {
      const client = new QuotaClient({
        urls: [urls['enforcer'] ?? ''],
        timeoutMs: 5_000,
        onUnavailable: 'throw',
        tls,
      })
      try {
        return String(
          (await client.check({ domain: 'api', descriptors: [{ tenant: 'acme' }] })).allowed,
        )
      } catch (err) {
        return err instanceof Error && 'code' in err ? String(err.code) : String(err)
      } finally {
        await client.close()
      }
    }
    expect(await decide(own.of('caller'))).toBe('true')
    expect(await decide({ ca: own.ca })).toBe('QUOTA_CLIENT_UNAVAILABLE')
  })

  it('reach the enforcer from the command line with the certificates that it is told of', async () => {
    const file = (name: string): string => join(own.folder, name)
    const args = [
      CLI,
      'check',
      '--domain',
      'api',
      'tenant=acme',
      '--enforcer-url',
      urls['enforcer'],
    ]
    const check = (env: Readonly<Record<string, string>>) =>
      run(process.execPath, args.map(String), { env: { ...process.env, ...env } })
    const certificates = {
      QUOTAPLANE_CA_FILE: file('ca.crt'),
      QUOTAPLANE_CERT_FILE: file('caller.crt'),
      QUOTAPLANE_KEY_FILE: file('caller.key'),
    }
    expect((await check(certificates)).stdout).toContain('allowed')
    await expect(check({ QUOTAPLANE_CA_FILE: file('ca.crt') })).rejects.toMatchObject({ code: 1 })
    await expect(check({ QUOTAPLANE_CERT_FILE: file('caller.crt') })).rejects.toMatchObject({
      code: 2,
      stderr: expect.stringContaining('QUOTAPLANE_CERT_FILE and QUOTAPLANE_KEY_FILE'),
    })
  })

  it('are decided over gRPC for callers with a certificate of the named authority alone', async () => {
    const decide = async (shown: Shown): Promise<string> => {
      const pem = (text: string | undefined) => (text === undefined ? null : Buffer.from(text))
      const security = credentials.createSsl(pem(shown.ca), pem(shown.key), pem(shown.cert))
      const client = officialClient(grpcPort, security)
      try {
        return String((await client.call(CHECK)).overall_code)
      } catch (err) {
        return err instanceof Error && 'code' in err ? `code ${err.code}` : String(err)
      } finally {
        client.close()
      }
    }
    const UNAVAILABLE = 'code 14'
    expect(await decide(own.of('caller'))).toBe('OK')
    expect(await decide({ ca: own.ca })).toBe(UNAVAILABLE)
    expect(await decide(own.of('late'))).toBe(UNAVAILABLE)
    expect(await decide({ ...strangers.of('caller'), ca: own.ca })).toBe(UNAVAILABLE)
    expect(await decide({ ...own.of('caller'), ca: strangers.ca })).toBe(UNAVAILABLE)
  })
})
