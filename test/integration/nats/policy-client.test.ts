import { connect, type NatsConnection } from 'nats'
import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest'
import { QuotaError } from '../../../shared/errors.ts'
import { NatsLink } from '../../../shared/nats/client.ts'
import { NatsPolicyClient } from '../../../shared/nats/policy-client.ts'
import { PolicyPublisher } from '../../../shared/nats/policy-publisher.ts'
import {
  POLICY_CHANGES_SUBJECT,
  POLICY_REVISION_SUBJECT,
} from '../../../shared/protocol/subjects.ts'
import { createLogger } from '../../../shared/runtime/logger.ts'
import { aPolicy, MemoryPlane } from '../../support/memory-plane.ts'
import { type NatsServer, startNats } from '../../support/nats-server.ts'

const log = createLogger({ service: 'test', level: 'silent' })

let server: NatsServer
let stranger: NatsConnection
let adminLink: NatsLink
let daemonLink: NatsLink
let plane: MemoryPlane
let publisher: PolicyPublisher
let client: NatsPolicyClient
let badHints: unknown[]
let hints: number[]

beforeAll(async () => {
  server = await startNats()
  stranger = await connect({ servers: server.url })
  plane = new MemoryPlane(['us-east-1', 'eu-west-1'])
  adminLink = new NatsLink({ url: server.url, name: 'admin', log })
  const source = {
    readChanges: (query: { after: number; limit: number }) => plane.readChanges(query),
    readCheckTokens: () => plane.readCheckTokens(),
    takeIncarnation: (question: { region: string; requestId: string; atLeast: number }) =>
      plane.takeIncarnation(question),
    answerStock: (...question: Parameters<MemoryPlane['answerStock']>) =>
      plane.answerStock(...question),
  }
  publisher = new PolicyPublisher({ link: adminLink, source, log })
  daemonLink = new NatsLink({ url: server.url, name: 'daemon', log })
  client = new NatsPolicyClient(daemonLink, (err) => badHints.push(err))
  client.onRevision((revision) => hints.push(revision))
  adminLink.start()
  daemonLink.start()
  await vi.waitFor(() => {
    expect(adminLink.isConnected() && daemonLink.isConnected()).toBe(true)
  })
})

beforeEach(() => {
  plane = new MemoryPlane(['us-east-1', 'eu-west-1'])
  badHints = []
  hints = []
})

afterAll(async () => {
  await Promise.all([adminLink?.close(), daemonLink?.close(), stranger?.close()])
  await server?.stop()
})

describe('the policy client', () => {
  it('reads everything there is, page by page, and only what changed after that', async () => {
    for (let id = 1; id <= 450; id++) plane.put(aPolicy({ id }))
    const all = await client.changesSince(0)
    expect(all).toMatchObject({ revision: 451, members: ['us-east-1', 'eu-west-1'] })
    expect(
      new Set(all.changes.map((change) => change.kind === 'policy' && change.policy.id)).size,
    ).toBe(450)
    plane.put(aPolicy({ id: 7, capacity: 5 }))
    plane.remove(8)
    const later = await client.changesSince(all.revision)
    expect(later.changes).toMatchObject([
      { kind: 'policy', policy: { id: 7, revision: 452 } },
      { kind: 'removed', id: 8, revision: 453 },
    ])
    expect(await client.changesSince(later.revision)).toMatchObject({ revision: 453, changes: [] })
  })

  it('goes on with the page that failed, and has what changed meanwhile', async () => {
    for (let id = 1; id <= 2_500; id++) plane.put(aPolicy({ id }))
    const asked: number[] = []
    const { readChanges } = plane
    plane.readChanges = async (query) => {
      asked.push(query.after)
      if (asked.length === 3) throw new QuotaError('QUOTA_DATABASE_UNAVAILABLE', 'it restarts')
      return await readChanges.call(plane, query)
    }
    await expect(client.changesSince(0)).rejects.toThrow('it restarts')
    plane.put(aPolicy({ id: 1, capacity: 5 }))
    plane.remove(2)
    const all = await client.changesSince(0)
    expect(asked[3]).toBe(asked[2])
    expect(asked.filter((after) => after === 0)).toHaveLength(1)
    expect(all.revision).toBe(plane.revision)
    const last = new Map(
      all.changes.map((change) => [
        change.kind === 'policy' ? change.policy.id : change.id,
        change,
      ]),
    )
    expect(last.size).toBe(2_500)
    expect(last.get(1)).toMatchObject({ policy: { limits: [{ capacity: 5 }] } })
    expect(last.get(2)).toMatchObject({ kind: 'removed' })
    const again = await client.changesSince(0)
    expect(again.changes).toHaveLength(2_500)
  })

  it('gets a new incarnation for a new question and the same one for the same', async () => {
    const ask = (requestId: string, atLeast = 0) =>
      client.nextIncarnation({ region: 'us-east-1', requestId, atLeast })
    expect(await ask('a')).toMatchObject({ incarnation: 1, first: true })
    expect(await ask('a')).toMatchObject({ incarnation: 1, first: true })
    expect(await ask('b')).toMatchObject({ incarnation: 2, first: false })
    expect((await ask('c', 1_000)).incarnation).toBeGreaterThan(1_000)
  })

  it('hears hints, and goes on after one that is not of this version', async () => {
    stranger.publish(POLICY_REVISION_SUBJECT, '{"v":2,"revision":9}')
    stranger.publish(POLICY_REVISION_SUBJECT, 'nonsense')
    await stranger.flush()
    const marks: string[] = []
    client.onTokensMark((mark) => marks.push(mark))
    publisher.announce(11)
    publisher.announce(12, '2.1')
    await vi.waitFor(() => expect([hints, marks]).toEqual([[11, 12], ['2.1']]))
    expect(badHints).toHaveLength(2)
  })

  it('does without tokens while an admin answers that knows nothing of them', async () => {
    expect((await client.checkTokens()).tokens).toEqual([])
    await adminLink.close()
    // As one before there were tokens does: what it does not know of a question it passes over.
    const earlier = stranger.subscribe(POLICY_CHANGES_SUBJECT, {
      callback: (_err, message) => {
        const head = { v: 1, revision: 1, members: [], formerMembers: [], leastIncarnations: {} }
        message.respond(JSON.stringify({ ...head, changes: [], next: null }))
      },
    })
    await stranger.flush()
    await expect(client.checkTokens()).rejects.toMatchObject({
      code: 'QUOTA_BUS_UNAVAILABLE',
      message: expect.stringContaining('earlier version'),
    })
    expect(await client.changesSince(0)).toMatchObject({ revision: 1, changes: [] })
    earlier.unsubscribe()
    adminLink = new NatsLink({ url: server.url, name: 'admin', log })
    const source = plane
    publisher = new PolicyPublisher({ link: adminLink, source, log })
    adminLink.start()
    await vi.waitFor(() => expect(adminLink.isConnected()).toBe(true), { timeout: 5_000 })
  })

  it('says that admin is away when nobody answers, and asks again with success', async () => {
    await adminLink.close()
    await expect(client.changesSince(0)).rejects.toMatchObject({ code: 'QUOTA_BUS_UNAVAILABLE' })
    adminLink = new NatsLink({ url: server.url, name: 'admin', log })
    publisher = new PolicyPublisher({ link: adminLink, source: plane, log })
    adminLink.start()
    await vi.waitFor(async () => expect((await client.changesSince(0)).revision).toBe(1), {
      timeout: 10_000,
      interval: 100,
    })
  })
})
