import { pino } from 'pino'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { createPolicySource, LISTEN_MS } from '../../../services/admin/policy-source.ts'
import type { Policy } from '../../../shared/core/policy.ts'
import { NatsLink } from '../../../shared/nats/client.ts'
import { NatsPolicyClient } from '../../../shared/nats/policy-client.ts'
import { PolicyPublisher } from '../../../shared/nats/policy-publisher.ts'
import {
  CHANGES_BYTES_MAX,
  changesReplySchema,
  decodeMessage,
  type PolicyChange,
} from '../../../shared/protocol/policy-messages.ts'
import { POLICY_CHANGES_SUBJECT } from '../../../shared/protocol/subjects.ts'
import { type NatsServer, startNats } from '../../support/nats-server.ts'
import { aRecord } from './a-record.ts'
import { type Admin, aPolicy, startAdmin } from './admin-harness.ts'

const log = pino({ level: 'silent' })
let nats: NatsServer
let admin: Admin
let adminLink: NatsLink
let regionLink: NatsLink
let client: NatsPolicyClient
let publisher: PolicyPublisher
let answered: number
let listenedMs: number

beforeAll(async () => {
  nats = await startNats()
})
afterAll(async () => await nats.stop())

beforeEach(async () => {
  admin = await startAdmin()
  await admin.register('us-east-1', 'eu-west-1')
  answered = 0
  listenedMs = LISTEN_MS
  adminLink = new NatsLink({ url: nats.url, name: 'admin', log })
  publisher = servedBy(adminLink)
  regionLink = new NatsLink({ url: nats.url, name: 'region', log })
  client = new NatsPolicyClient(regionLink, () => {})
  await connected(adminLink, regionLink)
})
afterEach(async () => {
  await Promise.all([adminLink.close(), regionLink.close(), admin.close()])
})

function servedBy(link: NatsLink): PolicyPublisher {
  const source = createPolicySource({
    db: admin.db,
    live: admin.live,
    cache: admin.cache,
    wallMs: () => admin.clock.nowMs,
    listeningMs: () => listenedMs,
  })
  return new PolicyPublisher({ link, source, log, onAnswer: () => answered++ })
}

async function connected(...links: NatsLink[]): Promise<void> {
  for (const link of links) link.start()
  await expect.poll(() => links.every((link) => link.isConnected())).toBe(true)
}

const createNamed = (name: string, changes: object = {}) =>
  admin.create({ name, match: [{ key: name }], ...changes })

/** A region's plane, in the way a sync daemon keeps it: the higher revision of a policy stays. */
function apply(plane: Map<number, Policy>, changes: readonly PolicyChange[]): void {
  for (const change of changes) {
    if (change.kind === 'removed') plane.delete(change.id)
    else if ((plane.get(change.policy.id)?.revision ?? 0) <= change.policy.revision) {
      plane.set(change.policy.id, change.policy)
    }
  }
}

async function ask(request: object): Promise<string> {
  return await regionLink.request(
    POLICY_CHANGES_SUBJECT,
    JSON.stringify({ v: 1, ...request }),
    5_000,
  )
}

describe('a region', () => {
  it('reads everything there is, then only what changed since, deletions included', async () => {
    await createNamed('one')
    const two = await createNamed('two')
    const all = await client.changesSince(0)
    expect(all.members).toEqual(['eu-west-1', 'us-east-1'])
    expect(all.changes.map((change) => change.kind)).toEqual(['policy', 'policy'])
    expect(all.revision).toBe(two.body.revision)
    expect(await client.changesSince(all.revision)).toMatchObject({ changes: [] })

    await admin.call('DELETE', '/v1/domains/api/policies/one', undefined, { 'if-match': '*' })
    await createNamed('three')
    const later = await client.changesSince(all.revision)
    expect(later.changes).toMatchObject([
      { kind: 'removed', id: expect.any(Number), revision: later.revision - 1 },
      { kind: 'policy', policy: { name: 'three', revision: later.revision } },
    ])
  })

  it('gets a policy as it works with it, without the notes of its operator', async () => {
    await createNamed('one')
    const { changes } = await client.changesSince(0)
    expect(changes[0]).toEqual({
      kind: 'policy',
      policy: {
        id: expect.any(Number),
        domain: 'api',
        name: 'one',
        description: '',
        revision: expect.any(Number),
        match: [{ key: 'one' }],
        mode: 'strict',
        relaxedPercent: null,
        objective: 'max-min',
        onStoreFailure: 'allow',
        shadow: false,
        unlimited: false,
        limits: [
          {
            id: expect.any(Number),
            name: 'per-second',
            algorithm: 'token_bucket',
            calendar: null,
            shards: 1,
            leases: 'auto',
            candidateOf: null,
            capacity: 10_000,
            windowMs: 1_000,
            burst: 10_000,
            usageEpoch: 0,
            epoch: 1,
            base: { 'us-east-1': 600_000, 'eu-west-1': 400_000 },
            previousBase: null,
            floorPercent: 2,
          },
        ],
      },
    })
  })

  it('is answered in pages that NATS carries, and a change meanwhile is in a later one (B128)', async () => {
    const description = 'é'.repeat(30_000)
    for (let i = 0; i < 12; i++) await createNamed(`large-${i}`, { description })
    const plane = new Map<number, Policy>()
    let after: number | null = 0
    let pages = 0
    while (after !== null) {
      const payload = await ask({ since: 0, after })
      expect(Buffer.byteLength(payload)).toBeLessThanOrEqual(CHANGES_BYTES_MAX)
      const page = decodeMessage(changesReplySchema, payload)
      apply(plane, page.changes)
      after = page.next
      if (pages++ === 0) {
        const edited = aPolicy({
          name: 'large-0',
          match: [{ key: 'large-0' }],
          onStoreFailure: 'deny',
        })
        const path = '/v1/domains/api/policies/large-0'
        await admin.call('PUT', path, edited, { 'if-match': '*' })
        await admin.call('DELETE', '/v1/domains/api/policies/large-1', undefined, {
          'if-match': '*',
        })
      }
    }
    expect(pages).toBeGreaterThan(1)
    const names = [...plane.values()].map((policy) => policy.name)
    expect(names.toSorted()).toEqual(
      Array.from({ length: 12 }, (_, i) => `large-${i}`)
        .filter((name) => name !== 'large-1')
        .toSorted(),
    )
    expect([...plane.values()].find((policy) => policy.name === 'large-0')?.onStoreFailure).toBe(
      'deny',
    )
  })

  it('that asks late, twice or in reverse order ends with the newest version (B128)', async () => {
    const { body } = await createNamed('one')
    const first = await client.changesSince(body.revision - 1)
    const edited = aPolicy({ name: 'one', match: [{ key: 'one' }], onStoreFailure: 'deny' })
    await admin.call('PUT', '/v1/domains/api/policies/one', edited, { 'if-match': '*' })
    const second = await client.changesSince(body.revision - 1)
    const plane = new Map<number, Policy>()
    for (const reply of [second, first, second, first]) apply(plane, reply.changes)
    expect([...plane.values()]).toMatchObject([{ onStoreFailure: 'deny' }])
  })

  it('hears of each revision', async () => {
    const heard: number[] = []
    client.onRevision((revision) => heard.push(revision))
    const { body } = await createNamed('one')
    await admin.follower.stepOnce()
    expect(admin.announced).toContain(body.revision)
    await expect
      .poll(() => {
        publisher.announce(body.revision)
        return heard
      })
      .toContain(body.revision)
  })

  it('gets its first incarnation once, and above every one that it published', async () => {
    const next = (requestId: string, atLeast = 0) =>
      client.nextIncarnation({ region: 'us-east-1', requestId, atLeast })
    const first = await next('boot-1')
    expect(first).toMatchObject({ first: true })
    expect(await next('boot-1')).toEqual(first)
    const mark = { incarnation: first.incarnation + 1_000_000, fence: 1, seq: 1 }
    admin.follower.hear(aRecord({ mark }))
    const second = await next('boot-2')
    expect(second.first).toBe(false)
    expect(second.incarnation).toBeGreaterThan(mark.incarnation)
  })

  it('is told at once why it is not answered', async () => {
    await expect(ask({ v: 2, since: 0 })).resolves.toContain('upgrade it')
    await expect(ask({ since: -1 })).resolves.toContain('malformed')
    await admin.db.destroy()
    await expect(client.changesSince(0)).rejects.toMatchObject({ code: 'QUOTA_BUS_UNAVAILABLE' })
  })

  it('whose daemon knows nothing of emergency actions is told so, and not half of a policy', async () => {
    await createNamed('one')
    const older = await ask({ since: 0 })
    expect(decodeMessage(changesReplySchema, older).changes).toHaveLength(1)
    const action = { domain: 'api', policy: 'one', kind: 'multiply', factor: 2 }
    const why = { reason: 'overload', ttlSeconds: 60 }
    const begun = await admin.call('POST', '/v1/emergency-actions', { ...action, ...why })
    expect(begun.status).toBe(201)
    const refused = await ask({ since: 0 })
    expect(() => decodeMessage(changesReplySchema, refused)).toThrow(
      /admin refused: api\/one has an emergency action.*upgrade it/,
    )
    const { changes } = await client.changesSince(0)
    expect(changes).toMatchObject([{ policy: { emergency: [{ effect: { kind: 'multiply' } }] } }])
  })

  it('is answered once where several admins run', async () => {
    const second = new NatsLink({ url: nats.url, name: 'admin-2', log })
    servedBy(second)
    await connected(second)
    for (let i = 0; i < 10; i++) await client.changesSince(0)
    expect(answered).toBe(10)
    await second.close()
  })

  it('is called new only once others were listened to, and never when one of them knows it', async () => {
    listenedMs = LISTEN_MS - 1
    const next = (requestId: string) =>
      client.nextIncarnation({ region: 'eu-west-1', requestId, atLeast: 0 })
    await expect(next('boot-1')).rejects.toThrow('listened to')
    listenedMs = LISTEN_MS
    // Postgres was restored from before the region's first life, which a peer remembers.
    const pairs = { 'eu-west-1': { lend: [0, 0], borrow: [7, 0, 1] } } as const
    admin.follower.hear(aRecord({ pairs }))
    expect(await next('boot-1')).toMatchObject({ first: false })
  })
})

describe('a Postgres that was restored from an older copy', () => {
  it('is not asked any more, neither for policies nor for incarnations', async () => {
    const policyRevision = admin.cache.revision + 1
    admin.follower.hear(aRecord({ policyRevision }))
    await expect(client.changesSince(0)).rejects.toThrow('restored from an older copy')
    const ask = { region: 'eu-west-1', requestId: 'boot-1', atLeast: 0 }
    await expect(client.nextIncarnation(ask)).rejects.toThrow('restored from an older copy')
  })
})
