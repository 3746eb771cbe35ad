import { execFile } from 'node:child_process'
import { mkdtemp, readFile, rm, stat } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import type { NatsConnection } from 'nats'
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest'
import { writeKeys } from '../../../services/cli/keys/write-keys.ts'
import type { RegionRecord } from '../../../shared/core/ledger/types.ts'
import { NatsLink, type NatsSecurity } from '../../../shared/nats/client.ts'
import { NatsPolicyClient } from '../../../shared/nats/policy-client.ts'
import { PolicyPublisher } from '../../../shared/nats/policy-publisher.ts'
import { NatsRecordBus } from '../../../shared/nats/record-bus.ts'
import { natsSecurity } from '../../../shared/nats/settings.ts'
import {
  inboxPrefix,
  incarnationSubject,
  POLICY_CHANGES_SUBJECT,
  STATE_SUBJECTS,
  stateSubject,
  stockSubject,
} from '../../../shared/protocol/subjects.ts'
import { Secret } from '../../../shared/runtime/env.ts'
import { createLogger } from '../../../shared/runtime/logger.ts'
import { aPolicy, MemoryPlane } from '../../support/memory-plane.ts'
import { type NatsServer, startNats } from '../../support/nats-server.ts'
import { aRecord, NOTHING_KNOWN, payloadsOf } from '../../support/records.ts'

const run = promisify(execFile)
const log = createLogger({ service: 'test', level: 'silent' })
const EU = 'eu-west-1'
const US = 'us-east-1'

let folder: string
let server: NatsServer
let links: NatsLink[] = []

const read = (name: string): Promise<string> => readFile(join(folder, name), 'utf8')
const open = (security?: NatsSecurity, region?: string): NatsLink => {
  const who = { name: 'test', region, log }
  const link = new NatsLink({ url: server.url, ...who, ...(security && { security }) })
  links.push(link)
  return link
}
const nkeyOf = async (who: string): Promise<NatsSecurity> => ({
  nkeySeed: new Secret((await read(`nats-${who}.seed`)).trim()),
})
const whenConnected = async (...all: NatsLink[]): Promise<void> => {
  for (const link of all) link.start()
  await vi.waitFor(() => expect(all.every((link) => link.isConnected())).toBe(true), 10_000)
}

afterEach(async () => {
  await Promise.all(links.map((link) => link.close()))
  links = []
})

describe('nkeys of quotaplane keys create', () => {
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'quotaplane-keys-'))
    await writeKeys(folder, [EU, US])
    server = await startNats(await read(`nats-${EU}.conf`))
  })

  afterAll(async () => {
    await server?.stop()
    await rm(folder, { recursive: true, force: true })
  })

  it('leaves seeds readable by their owner alone, and writes over none', async () => {
    const { mode } = await stat(join(folder, `nats-${EU}.seed`))
    expect(mode & 0o777).toBe(0o600)
    await expect(writeKeys(folder, [EU])).rejects.toThrow('is not empty')
  })

  it('lets a region publish its record, and ask admin all that it needs', async () => {
    const adminLink = open(await nkeyOf('admin'))
    const plane = new MemoryPlane([US, EU])
    plane.put(aPolicy({ id: 1 }))
    const publisher = new PolicyPublisher({
      link: adminLink,
      log,
      source: {
        readChanges: (query) => plane.readChanges(query),
        readCheckTokens: () => plane.readCheckTokens(),
        takeIncarnation: (question) => plane.takeIncarnation(question),
        answerStock: (...question) => plane.answerStock(...question),
      },
    })
    const heard: RegionRecord[] = []
    const adminBus = new NatsRecordBus(adminLink, {
      region: null,
      onRefused() {},
      onSendFailed() {},
    })
    adminBus.onRecord((record) => heard.push(record))
    const syncLink = open(await nkeyOf(EU), EU)
    const bus = new NatsRecordBus(syncLink, { region: EU, onRefused() {}, onSendFailed() {} })
    const hints: number[] = []
    const client = new NatsPolicyClient(syncLink, () => {})
    client.onRevision((revision) => hints.push(revision))
    await whenConnected(adminLink, syncLink)
    await vi.waitFor(() => {
      bus.publish(aRecord({ from: EU }), NOTHING_KNOWN)
      publisher.announce(7)
      expect(heard.length).toBeGreaterThan(0)
      expect(hints).toContain(7)
    })
    expect((await client.changesSince(0)).changes).toHaveLength(1)
    expect((await client.checkTokens()).tokens).toEqual([])
    expect(
      (await client.nextIncarnation({ region: EU, requestId: 'r', atLeast: 0 })).incarnation,
    ).toBeGreaterThan(0)
  })

  it('does not let a region publish as another, nor ask in its name', async () => {
    const heard: string[] = []
    const listener = open(await nkeyOf('admin'))
    const note = (_: unknown, msg: { subject: string }): void => void heard.push(msg.subject)
    listener.use((connection) => {
      connection.subscribe(stateSubject(US), { callback: note })
      connection.subscribe(stateSubject(EU), { callback: note })
    })
    const sync = open(await nkeyOf(EU), EU)
    await whenConnected(listener, sync)
    const [payload = new Uint8Array()] = payloadsOf(aRecord({ from: US }))
    sync.publish(stateSubject(US), payload)
    await vi.waitFor(() => {
      expect(server.log()).toMatch(new RegExp(`Publish Violation.*"${stateSubject(US)}"`))
    })
    await expect(sync.request(stockSubject(US), '{}', 500)).rejects.toThrow('no reply')
    await vi.waitFor(() => {
      sync.publish(stateSubject(EU), payload)
      expect(heard).toContain(stateSubject(EU))
    })
    expect(heard).not.toContain(stateSubject(US))
  })

  it('lets a region neither hear answers to another, nor have admin answer in its place', async () => {
    const asked: string[] = []
    const outcomes: string[] = []
    const plane = new MemoryPlane([US, EU])
    const adminLink = open(await nkeyOf('admin'))
    new PolicyPublisher({
      link: adminLink,
      log,
      source: {
        readChanges: (query) => plane.readChanges(query),
        readCheckTokens: () => plane.readCheckTokens(),
        takeIncarnation(question) {
          asked.push(question.region)
          return plane.takeIncarnation(question)
        },
        answerStock(region, question) {
          asked.push(region)
          return plane.answerStock(region, question)
        },
      },
      onAnswer: (kind, outcome) => outcomes.push(`${kind} ${outcome}`),
    })
    const heard: string[] = []
    let connection: NatsConnection | undefined
    adminLink.use((open) => {
      open.subscribe(STATE_SUBJECTS, { callback: (_, { subject }) => void heard.push(subject) })
    })
    const sync = open(await nkeyOf(EU), EU)
    sync.use((open) => {
      connection = open
    })
    await whenConnected(adminLink, sync)
    for (const subject of ['_INBOX.>', `${inboxPrefix(US)}.>`]) {
      connection?.subscribe(subject, { callback: () => {} })
      await vi.waitFor(() => {
        const refusals = server.log().match(/Subscription Violation.*/g) ?? []
        expect(refusals.some((line) => line.includes(`"${subject}"`))).toBe(true)
      })
    }
    const changes = JSON.stringify({ v: 1, since: 0, format: 1 })
    const incarnation = JSON.stringify({ v: 1, requestId: 'r', atLeast: 0 })
    const stock = JSON.stringify({ v: 1, question: 'q', windows: [], asks: [] })
    const ask = (subject: string, payload: string, reply: string): void =>
      connection?.publish(subject, payload, { reply })
    ask(POLICY_CHANGES_SUBJECT, changes, stateSubject(US))
    ask(incarnationSubject(EU), incarnation, incarnationSubject(US))
    ask(stockSubject(EU), stock, `${inboxPrefix(US)}.guessed.1`)
    await vi.waitFor(() => expect(outcomes).toHaveLength(3))
    expect(outcomes).toEqual(['changes refused', 'incarnation refused', 'stock refused'])
    expect(asked).toEqual([])
    expect(heard).toEqual([])
    // And what it asks for itself is answered.
    await sync.request(stockSubject(EU), stock, 2_000)
    expect(asked).toEqual([EU])
  })

  it.each(['no key', 'the key of another region'])('does not let in who has %s', async (who) => {
    const link = open(who === 'no key' ? undefined : await nkeyOf(US))
    const refusals = (): number => server.log().match(/authentication error/gi)?.length ?? 0
    const before = refusals()
    link.start()
    await vi.waitFor(() => expect(refusals()).toBeGreaterThan(before))
    expect(link.isConnected()).toBe(false)
  })
})

describe('TLS to NATS', () => {
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'quotaplane-tls-'))
    await run('deploy/tls/make-certificates.sh', [folder, 'nats', 'sync'])
    const file = (name: string): string => join(folder, name)
    server = await startNats(
      `tls { cert_file: "${file('nats.crt')}", key_file: "${file('nats.key')}", ca_file: "${file('ca.crt')}", verify: true }`,
    )
  }, 60_000)

  afterAll(async () => {
    await server?.stop()
    await rm(folder, { recursive: true, force: true })
  })

  it('connects with a certificate of the same authority', async () => {
    const security = natsSecurity({
      NATS_CA: await read('ca.crt'),
      NATS_CERT: await read('sync.crt'),
      NATS_KEY: new Secret(await read('sync.key')),
    })
    await whenConnected(open(security))
  })

  it('does not connect without a certificate, nor to a server of an unknown authority', async () => {
    const other = await mkdtemp(join(tmpdir(), 'quotaplane-tls-'))
    await run('deploy/tls/make-certificates.sh', [other, 'sync'])
    const stranger = {
      ca: await readFile(join(other, 'ca.crt'), 'utf8'),
      cert: await read('sync.crt'),
      key: new Secret(await read('sync.key')),
    }
    await rm(other, { recursive: true })
    const warned: unknown[] = []
    const warn = (fields: { err: Error }): void => void warned.push(fields.err.message)
    const loud = Object.assign(Object.create(log), { warn }) as typeof log
    const nobody = { ca: await read('ca.crt') }
    for (const security of [stranger, nobody]) {
      const link = new NatsLink({ url: server.url, name: 'test', log: loud, security })
      links.push(link)
      link.start()
      await vi.waitFor(() => expect(warned.length).toBeGreaterThan(0), 10_000)
      expect(link.isConnected()).toBe(false)
      await link.close()
      warned.length = 0
    }
  })

  it('refuses a certificate without its key', () => {
    expect(() => natsSecurity({ NATS_CERT: 'x' })).toThrow('NATS_CERT and NATS_KEY')
  })
})
