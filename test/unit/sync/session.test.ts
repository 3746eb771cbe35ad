import { Registry } from 'prom-client'
import { describe, expect, it } from 'vitest'
import { Inbox } from '../../../services/sync/inbox.ts'
import { LEASE_MS, Leadership } from '../../../services/sync/leadership.ts'
import { createSyncMetrics } from '../../../services/sync/metrics.ts'
import { RegionMemory } from '../../../services/sync/region-memory.ts'
import { Session } from '../../../services/sync/session.ts'
import type { RegionRecord } from '../../../shared/core/ledger/types.ts'
import type { RegionStore } from '../../../shared/core/ports.ts'
import { createLogger } from '../../../shared/runtime/logger.ts'
import { aPolicy } from '../../support/memory-plane.ts'

const REGION = 'us-east-1'
const LAPSED = { code: 'QUOTA_FENCED', message: 'the lease on this region has lapsed' }

/** A Redis that does all it is asked for and names it; `onCall` may let time pass before the reply. */
class ObedientStore {
  readonly calls: string[] = []
  onCall: (name: string) => void = () => {}

  readonly #answers: Readonly<Record<string, unknown>> = {
    claimLeadership: true,
    writePolicies: 1,
    writeShares: new Map(),
    exchangeCounts: [],
    readEnforcers: { enforcers: [], unlisted: 0 },
    collect: { storeOffsetMs: 0, samples: [], noticed: [], missing: [], corrupt: [], usage: [] },
  }

  /** How long each of so many parts of writing the policies takes. */
  parts: { readonly count: number; readonly each: () => void } = { count: 0, each: () => {} }

  asStore(): RegionStore {
    const call =
      (name: string) =>
      async (_change: unknown, pause?: () => Promise<void>): Promise<unknown> => {
        this.calls.push(name)
        this.onCall(name)
        const { count, each } = this.parts
        for (let part = 0; name === 'writePolicies' && part < count; part++) {
          each()
          await pause?.()
        }
        return this.#answers[name]
      }
    return new Proxy({} as RegionStore, {
      get: (_target, name) => call(String(name)),
    })
  }
}

async function aLeadingSession() {
  const clock = { nowMs: 1_000, monotonicMs: () => clock.nowMs, wallMs: () => clock.nowMs }
  const published: RegionRecord[] = []
  const bus = {
    sinceFor: () => ({ rows: -1, usage: -1 }),
    publish: (record: RegionRecord) => void published.push(record),
    onRecord: () => {},
    onQuestion: () => {},
  }
  const obedient = new ObedientStore()
  const store = obedient.asStore()
  const leadership = new Leadership('holder', clock)
  await leadership.claim(store)
  const memory = new RegionMemory(REGION)
  const counts: unknown[] = []
  const countBus = { publish: (report: unknown) => void counts.push(report), onReport: () => {} }
  const inbox = new Inbox(() => {})
  const session = new Session(
    {
      bus,
      leadership,
      countBus,
      inbox,
      onStockWanted: () => {},
      onRollout: () => {},
      memory,
      clock,
      metrics: createSyncMetrics(new Registry(), () => true),
      log: createLogger({ service: 'sync', level: 'silent' }),
    },
    store,
    10_000,
  )
  await session.handle({
    kind: 'started',
    continuity: 'first',
    incarnation: 1,
    fence: 1,
    firstSeq: 0,
    pairs: {},
    rows: [],
    storeOffsetMs: 0,
    bootedAtStoreMs: 0,
  })
  const policy = aPolicy()
  await session.usePlane({
    revision: 1,
    members: [REGION, 'eu-west-1'],
    formerMembers: [],
    leastIncarnations: {},
    policies: new Map([[policy.id, policy]]),
    askedAtMs: clock.nowMs,
  })
  obedient.calls.length = 0
  return { session, inbox, clock, memory, leadership, published, counts, obedient, store, policy }
}

describe('a daemon whose lease on its region has lapsed', () => {
  it('publishes while the lease runs, and nothing from the moment that it has lapsed', async () => {
    const { session, clock, published } = await aLeadingSession()
    clock.nowMs += LEASE_MS - 1
    await session.send()
    expect(published).toHaveLength(1)
    clock.nowMs += 1
    await expect(session.send()).rejects.toMatchObject(LAPSED)
    expect(published).toHaveLength(1)
  })

  it('takes no event in and writes nothing', async () => {
    const { session, clock, memory, obedient } = await aLeadingSession()
    const { ledger } = memory
    clock.nowMs += LEASE_MS
    await expect(session.handle({ kind: 'tick' })).rejects.toMatchObject(LAPSED)
    expect(memory.ledger).toBe(ledger)
    expect(obedient.calls).toEqual([])
  })

  it('stops between two writes of one step when the first took too long', async () => {
    const { session, clock, memory, obedient, policy, published } = await aLeadingSession()
    obedient.onCall = (name) => {
      if (name === 'writePolicies') clock.nowMs += LEASE_MS
    }
    const changed = { ...policy, limits: policy.limits.map((limit) => ({ ...limit, capacity: 7 })) }
    const plane = { ...memory.plane, revision: 2, policies: new Map([[policy.id, changed]]) }
    await expect(session.usePlane(plane)).rejects.toMatchObject(LAPSED)
    expect(obedient.calls).toEqual(['writePolicies'])
    await expect(session.send()).rejects.toMatchObject(LAPSED)
    expect(published).toEqual([])
  })

  it('keeps it through a write of many policies that takes longer than it lasts', async () => {
    const { session, clock, memory, obedient, policy, published } = await aLeadingSession()
    const part = () => {
      clock.nowMs += LEASE_MS / 4
    }
    obedient.parts = { count: 12, each: part }
    await session.usePlane({ ...memory.plane, revision: 2, policies: new Map([[1, policy]]) })
    expect(obedient.calls.filter((name) => name === 'claimLeadership').length).toBeGreaterThan(5)
    await session.send()
    expect(published).toHaveLength(1)
    // One part that takes as long as the lease ends the session in the middle of the write.
    obedient.parts = { count: 12, each: () => (clock.nowMs += LEASE_MS) }
    await expect(
      session.usePlane({ ...memory.plane, revision: 3, policies: new Map([[1, policy]]) }),
    ).rejects.toMatchObject(LAPSED)
  })

  it('does not publish a record when reserving numbers for it took too long', async () => {
    const { session, clock, memory, obedient, published } = await aLeadingSession()
    memory.ledger = { ...memory.ledger, nextSeq: 9_999 }
    obedient.onCall = () => {
      clock.nowMs += LEASE_MS
    }
    await expect(session.send()).rejects.toMatchObject(LAPSED)
    expect(obedient.calls).toEqual(['reserveSeq'])
    expect(published).toEqual([])
    expect(memory.ledger.nextSeq).toBe(9_999)
  })

  it('ends its session at the renewal that another claim came between', async () => {
    const { session, clock, obedient, published } = await aLeadingSession()
    clock.nowMs += LEASE_MS
    await expect(session.stepOnce()).rejects.toMatchObject({ code: 'QUOTA_FENCED' })
    expect(obedient.calls).toEqual(['claimLeadership'])
    expect(published).toEqual([])
  })
})

describe('tokens for checks', () => {
  async function aSessionWith(storedAsOfMs: number) {
    const leading = await aLeadingSession()
    leading.memory.storedTokensAsOfMs = storedAsOfMs
    return {
      ...leading,
      hear: async (asOfMs: number, askedAtMs: number): Promise<void> => {
        leading.inbox.putTokens({ tokens: { asOfMs, tokens: [] }, askedAtMs })
        while (!leading.inbox.isEmpty) await leading.session.stepOnce()
      },
      writes: () => leading.obedient.calls.filter((name) => name === 'writeCheckTokens').length,
    }
  }

  it('asked for before this daemon led never take the place of later ones', async () => {
    const { hear, writes, memory } = await aSessionWith(500)
    await hear(499, 999)
    expect([writes(), memory.checkTokens]).toEqual([0, null])
    await hear(501, 999)
    expect([writes(), memory.storedTokensAsOfMs]).toEqual([1, 501])
  })

  it('asked for since are written though a Postgres with another clock dates them earlier', async () => {
    const { hear, writes, memory } = await aSessionWith(500)
    await hear(100, 1_000)
    expect([writes(), memory.storedTokensAsOfMs]).toEqual([1, 501])
  })

  it('that could not be written are known to be later than those in Redis', async () => {
    const { hear, memory, obedient } = await aSessionWith(500)
    obedient.onCall = (name) => {
      if (name === 'writeCheckTokens') throw new Error('no reply')
    }
    await expect(hear(600, 1_000)).rejects.toThrow('no reply')
    expect([memory.checkTokens?.asOfMs, memory.storedTokensAsOfMs]).toEqual([600, 500])
  })
})
