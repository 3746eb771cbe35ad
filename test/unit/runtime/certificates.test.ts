import { X509Certificate } from 'node:crypto'
import { copyFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { z } from 'zod'
import { CertificateFiles } from '../../../shared/runtime/certificates.ts'
import { pem, readEnv, secret } from '../../../shared/runtime/env.ts'
import { observeCertificates } from '../../../shared/runtime/keep-certificates.ts'
import { createRegistry } from '../../../shared/runtime/metrics.ts'
import { connectTls, listenerNames } from '../../../shared/runtime/tls.ts'
import { type Certificates, makeCertificates } from '../../support/certificates.ts'

const REDIS = { use: 'redis', cert: 'REDIS_CERT', key: 'REDIS_KEY', ca: 'REDIS_CA' } as const
const LISTENER = listenerNames('SYNC')

const schema = z.object({
  REGION: z.string(),
  SYNC_TLS_CERT: pem.optional(),
  SYNC_TLS_KEY: secret.optional(),
  SYNC_TLS_CLIENT_CA: pem.optional(),
  REDIS_CERT: pem.optional(),
  REDIS_KEY: secret.optional(),
  REDIS_CA: pem.optional(),
})

let own: Certificates
let environment: Readonly<Record<string, string>>
let said: { level: string; fields: Record<string, string>; message: string }[]
let nowMs: number
let files: CertificateFiles
let live: ReturnType<typeof readSettings>

const file = (name: string): string => join(own.folder, name)
const readSettings = () => readEnv(schema, environment)

beforeAll(async () => {
  own = await makeCertificates(['first', 'second'], ['late'])
})
afterAll(() => own?.remove())

/** Puts `name`'s certificate and key where the settings say. */
async function place(name: string, key = name): Promise<void> {
  await copyFile(file(`${name}.crt`), file('tls.crt'))
  await copyFile(file(`${key}.key`), file('tls.key'))
}

beforeEach(async () => {
  await place('first')
  await copyFile(file('ca.crt'), file('authority.crt'))
  environment = {
    REGION: 'us-east-1',
    SYNC_TLS_CERT_FILE: file('tls.crt'),
    SYNC_TLS_KEY_FILE: file('tls.key'),
    REDIS_CA_FILE: file('authority.crt'),
  }
  said = []
  nowMs = Date.now()
  const say =
    (level: string) =>
    (fields: unknown, message: unknown): void =>
      void said.push({ level, fields: fields as never, message: String(message) })
  const config = readSettings()
  files = new CertificateFiles({
    config,
    environment,
    uses: [LISTENER, REDIS],
    log: { info: say('info'), warn: say('warn') } as never,
    wallMs: () => nowMs,
  })
  live = files.over(config)
})

describe('certificates by file', () => {
  it('are those of the start until others are there, which are then shown, with their key, to who looks', async () => {
    const tls = files.listener()
    const options = connectTls({
      get cert() {
        return live.SYNC_TLS_CERT
      },
    })
    let changes = 0
    tls?.onChange?.(() => changes++)
    await files.readOnce()
    expect(tls?.cert).toBe(own.of('first').cert.trimEnd())
    expect([changes, said]).toEqual([0, []])
    await place('second')
    await files.readOnce()
    const second = own.of('second')
    expect(tls?.cert).toBe(second.cert.trimEnd())
    expect(tls?.key.reveal()).toBe(second.key.trimEnd())
    expect([live.SYNC_TLS_CERT, options.cert]).toEqual([tls?.cert, tls?.cert])
    expect(live.REGION).toBe('us-east-1')
    expect(changes).toBe(1)
    expect(said).toMatchObject([{ level: 'info', fields: { use: 'listener' } }])
  })

  it.each([
    [
      'of another key',
      () => place('second', 'first'),
      'SYNC_TLS_KEY: is not the key of SYNC_TLS_C',
    ],
    ['that has ended', () => place('late'), 'SYNC_TLS_CERT: has ended, '],
    [
      'half written',
      () => writeFile(file('tls.crt'), '-----BEGIN CERTIF'),
      'SYNC_TLS_CERT: has no',
    ],
    ['that is gone', () => rm(file('tls.crt')), 'SYNC_TLS_CERT_FILE: cannot read '],
  ])(
    'are kept where the renewed one is one %s, which is said once, and taken once it is right',
    async (_, spoil, told) => {
      const tls = files.listener()
      await spoil()
      await files.readOnce()
      await files.readOnce()
      expect(tls?.cert).toBe(own.of('first').cert.trimEnd())
      expect(tls?.key.reveal()).toBe(own.of('first').key.trimEnd())
      expect(said).toHaveLength(1)
      expect(said[0]).toMatchObject({ level: 'warn', fields: { use: 'listener' } })
      expect(said[0]?.fields['problem']).toContain(told)
      expect(files.states()).toContainEqual({ use: 'listener', isUnusable: true })
      expect(JSON.stringify(said)).not.toContain('PRIVATE')
      await place('second')
      await files.readOnce()
      expect(tls?.cert).toBe(own.of('second').cert.trimEnd())
      expect(files.states()).toContainEqual({ use: 'listener', isUnusable: false })
    },
  )

  it('are not taken before they are good, and then by themselves', async () => {
    nowMs = Date.parse(new X509Certificate(own.of('second').cert).validFrom) - 1_000
    await place('second')
    await files.readOnce()
    expect(said[0]?.fields['problem']).toContain('SYNC_TLS_CERT: is good only from ')
    nowMs += 2_000
    await files.readOnce()
    expect(files.listener()?.cert).toBe(own.of('second').cert.trimEnd())
  })

  it('of one use are renewed though those of another cannot be', async () => {
    await rm(file('tls.key'))
    const both = `${own.ca}${own.of('second').cert}`
    await writeFile(file('authority.crt'), both)
    await files.readOnce()
    expect(live.REDIS_CA).toBe(both.trimEnd())
    expect(live.SYNC_TLS_CERT).toBe(own.of('first').cert.trimEnd())
  })

  it('tell in metrics when they end, and whether their files can be used', async () => {
    const registry = createRegistry({}, false)
    observeCertificates(registry, files)
    await place('second', 'first')
    await files.readOnce()
    const ends = Date.parse(new X509Certificate(own.of('first').cert).validTo) / 1_000
    const text = await registry.metrics()
    expect(text).toContain(
      `quotaplane_certificate_expiry_timestamp_seconds{use="listener"} ${ends}`,
    )
    expect(text).toContain('quotaplane_certificate_unusable{use="listener"} 1')
    expect(text).toContain('quotaplane_certificate_unusable{use="redis"} 0')
  })
})

describe('a service without such files', () => {
  it('has nothing to read again, and listens without TLS', () => {
    const none = new CertificateFiles({
      config: {},
      environment: {},
      uses: [LISTENER, REDIS],
      log: {} as never,
      wallMs: () => nowMs,
    })
    expect([none.isByFile, none.listener(), none.ends(), none.states()]).toEqual([
      false,
      null,
      [],
      [],
    ])
  })
})
