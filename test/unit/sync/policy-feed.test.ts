import { describe, expect, it } from 'vitest'
import { createSyncMetrics } from '../../../services/sync/metrics.ts'
import { applyChanges, EMPTY_PLANE, type Plane } from '../../../services/sync/plane.ts'
import { PolicyFeed } from '../../../services/sync/policy-feed.ts'
import { QuotaError } from '../../../shared/errors.ts'
import type { ChangesSince } from '../../../shared/nats/policy-client.ts'
import { systemClock } from '../../../shared/runtime/clock.ts'
import { createLogger } from '../../../shared/runtime/logger.ts'
import { createRegistry } from '../../../shared/runtime/metrics.ts'
import { aPolicy } from '../../support/memory-plane.ts'

const members = ['us-east-1']
const saved = (revision: number, capacity: number): ChangesSince => ({
  revision,
  members,
  formerMembers: [],
  leastIncarnations: {},
  changes: [changeOf(revision, capacity)],
})

function changeOf(revision: number, capacity: number): ChangesSince['changes'][number] {
  const policy = aPolicy({ capacity })
  return {
    kind: 'policy',
    policy: {
      ...policy,
      revision,
      match: [{ key: 'tenant' }],
      limits: policy.limits.map((limit) => ({ ...limit })),
    },
  }
}

describe('a plane', () => {
  it('ends at the highest revision of a policy, in whatever order changes come', () => {
    const one = applyChanges(EMPTY_PLANE, saved(2, 10), 0)
    const two = applyChanges(one, saved(3, 20), 0)
    expect(capacityOf(applyChanges(two, saved(2, 10), 0))).toBe(20)
    expect(applyChanges(two, saved(2, 10), 0)).toBe(two)
  })

  it('loses a removed policy, and does not get it back from an older change', () => {
    const one = applyChanges(EMPTY_PLANE, saved(2, 10), 0)
    const removed = {
      revision: 3,
      members,
      formerMembers: [],
      leastIncarnations: {},
      changes: [{ kind: 'removed', id: 1, revision: 3 }],
    } as const
    const none = applyChanges(one, removed, 0)
    expect(none.policies.size).toBe(0)
    expect(applyChanges(none, saved(2, 10), 0).policies.size).toBe(0)
  })
})

describe('the policy feed', () => {
  it('asks only when there is a reason: at first, on a newer hint, and when told to', async () => {
    const { feed, asked, hint, answer } = aFeed()
    answer(saved(2, 10))
    await feed.pullOnce()
    await feed.pullOnce()
    expect(asked).toEqual([0])
    hint(2)
    await feed.pullOnce()
    expect(asked).toEqual([0])
    hint(3)
    answer(saved(3, 20))
    await feed.pullOnce()
    expect(asked).toEqual([0, 2])
    feed.wantPull()
    await feed.pullOnce()
    expect(asked).toEqual([0, 2, 3])
  })

  it('stays behind while admin does not answer, and keeps what it knows', async () => {
    const { feed, planes, answer, fail, hint } = aFeed()
    answer(saved(2, 10))
    await feed.pullOnce()
    hint(3)
    fail()
    await expect(feed.pullOnce()).rejects.toThrow('away')
    expect(feed.isBehind).toBe(true)
    expect(planes).toHaveLength(1)
    answer(saved(3, 20))
    await feed.pullOnce()
    expect(feed.isBehind).toBe(false)
    expect(planes.map(capacityOf)).toEqual([10, 20])
  })

  it('does not go back to an older revision that admin shows', async () => {
    const { feed, planes, answer } = aFeed()
    answer(saved(5, 50))
    await feed.pullOnce()
    feed.wantFull()
    answer(saved(4, 40))
    await feed.pullOnce()
    expect(planes.map(capacityOf)).toEqual([50])
  })

  it('goes on asking for the whole plane until admin has what this region knew', async () => {
    const { feed, planes, asked, answer } = aFeed()
    answer(saved(5, 50))
    await feed.pullOnce()
    feed.wantFull()
    answer(saved(4, 40))
    await feed.pullOnce()
    expect(feed.isBehind).toBe(true)
    answer(saved(5, 50))
    await feed.pullOnce()
    expect(feed.isBehind).toBe(false)
    expect(asked).toEqual([0, 0, 0])
    expect(planes).toHaveLength(2)
  })

  it('asks for everything after amnesia, also when the wish comes during a pull', async () => {
    const { feed, asked, answer, during } = aFeed()
    answer(saved(5, 50))
    during(() => feed.wantFull())
    await feed.pullOnce()
    expect(feed.isBehind).toBe(true)
    await feed.pullOnce()
    expect(asked).toEqual([0, 0])
  })
})

function capacityOf(plane: Plane): number | undefined {
  return plane.policies.get(1)?.limits[0]?.capacity
}

function aFeed() {
  const asked: number[] = []
  const planes: Plane[] = []
  const hearers: ((revision: number) => void)[] = []
  let reply: ChangesSince | null = null
  let interrupt: (() => void) | undefined
  const client = {
    onRevision: (handle: (revision: number) => void) => void hearers.push(handle),
    async changesSince(since: number): Promise<ChangesSince> {
      asked.push(since)
      interrupt?.()
      interrupt = undefined
      if (reply === null) throw new QuotaError('QUOTA_BUS_UNAVAILABLE', 'admin is away')
      return reply
    },
  }
  const feed = new PolicyFeed({
    client,
    clock: systemClock,
    log: createLogger({ service: 'test', level: 'silent' }),
    metrics: createSyncMetrics(createRegistry({}, false), () => false),
    onPlane: (plane) => planes.push(plane),
    onWanted: () => {},
  })
  return {
    feed,
    asked,
    planes,
    hint: (revision: number) => {
      for (const hear of hearers) hear(revision)
    },
    answer: (next: ChangesSince) => {
      reply = next
    },
    fail: () => {
      reply = null
    },
    during: (act: () => void) => {
      interrupt = act
    },
  }
}
