import { Redis } from 'ioredis'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { RolloutView } from '../../../services/admin/rollout-view.ts'
import { NatsLink } from '../../../shared/nats/client.ts'
import { NatsRolloutBus } from '../../../shared/nats/rollout-bus.ts'
import { createEnforcerRoll } from '../../../shared/redis/enforcer-roll.ts'
import { aPolicy } from '../../support/memory-plane.ts'
import { LIMIT, REGIONS, startPlane, type TestPlane, type TestRegion } from './plane.ts'
import { log, overshoot, untilLeading } from './region.ts'
import { UsageListener } from './usage-listener.ts'

/** The stated bound for a change to reach the enforcers of every region. */
const CHANGE_BOUND_MS = 2_000

let plane: TestPlane

beforeAll(async () => {
  plane = await startPlane()
  await untilLeading(plane.us.start(), plane.eu.start())
})

afterAll(() => plane?.stop())

async function capacities(region: TestRegion): Promise<readonly number[]> {
  const { policies } = await region.enforcer.policies()
  return policies.flatMap((policy) => policy.limits.map((limit) => limit.capacity))
}

async function untilBothHave(expected: readonly number[], timeout: number): Promise<void> {
  await vi.waitFor(
    async () => {
      const found = await Promise.all([plane.us, plane.eu].map(capacities))
      expect(found).toEqual([expected, expected])
    },
    { timeout, interval: 20 },
  )
}

/** What the regions tell admin of revisions and their enforcers. */
class RolloutListener {
  readonly #link: NatsLink
  readonly #view = new RolloutView()

  constructor(natsUrl: string) {
    this.#link = new NatsLink({ url: natsUrl, name: 'rollouts', log })
    new NatsRolloutBus(this.#link).onReport((report) =>
      this.#view.hear(report, REGIONS, Date.now()),
    )
    this.#link.start()
  }

  of(revision: number) {
    return this.#view.rolloutOf({ revision, members: REGIONS, nowMs: Date.now() })
  }

  close(): Promise<void> {
    return this.#link.close()
  }
}

describe('a rollout', () => {
  let rollouts: RolloutListener
  beforeAll(() => {
    rollouts = new RolloutListener(plane.nats.url)
  })
  afterAll(() => rollouts.close())

  const states = (revision: number) =>
    rollouts.of(revision).regions.map(({ region, state }) => [region, state])

  it('is told of by each region, and is over once the enforcers on its roll say so too', async () => {
    const redis = new Redis(plane.us.redis.url)
    const roll = createEnforcerRoll({ redis })
    const status = { id: 'e1', name: 'host:8080', sinceMs: 1, refused: null }
    await roll.beat({ ...status, revision: plane.admin.plane.revision })
    const revision = plane.admin.plane.put(aPolicy({ capacity: 1_500 }))
    plane.admin.announce()
    await vi.waitFor(
      () =>
        expect(states(revision)).toEqual([
          ['us-east-1', 'pending'],
          ['eu-west-1', 'applied'],
        ]),
      { timeout: 10_000, interval: 20 },
    )
    await roll.beat({ ...status, revision, sinceMs: 2_000 })
    await vi.waitFor(() => expect(rollouts.of(revision).isComplete).toBe(true), {
      timeout: 10_000,
      interval: 20,
    })
    const [us] = rollouts.of(revision).regions
    expect(us?.enforcers).toMatchObject([{ id: 'e1', since: '1970-01-01T00:00:02.000Z' }])
    await roll.leave('e1')
    redis.disconnect()
  })

  it('B124: says which region refuses what admin sends and why, until it can apply it', async () => {
    const unknown = { ...aPolicy({ capacity: 1_600 }), mode: 'lenient' as 'strict' }
    const revision = plane.admin.plane.put(unknown)
    plane.admin.announce()
    await vi.waitFor(
      () =>
        expect(states(revision)).toEqual([
          ['us-east-1', 'refused'],
          ['eu-west-1', 'refused'],
        ]),
      { timeout: 10_000, interval: 20 },
    )
    expect(rollouts.of(revision).regions[0]?.reason).toContain('mode')
    const mended = plane.admin.plane.put(aPolicy({ capacity: 1_700 }))
    plane.admin.announce()
    await vi.waitFor(() => expect(rollouts.of(mended).isComplete).toBe(true), {
      timeout: 10_000,
      interval: 20,
    })
  })
})

describe('a policy change', () => {
  it('reaches the enforcers of both regions in time, each with the part of its own', async () => {
    plane.admin.plane.put(aPolicy({ capacity: 2_000 }))
    plane.admin.announce()
    await untilBothHave([2_000], CHANGE_BOUND_MS)
    const homes = await Promise.all([plane.us, plane.eu].map(homeOf))
    expect(homes).toEqual([600_000, 400_000])
  })

  it('that was never announced is caught up by the next hint, with all that it missed', async () => {
    plane.admin.plane.put(aPolicy({ capacity: 3_000 }))
    plane.admin.plane.put(aPolicy({ id: 2, name: 'other', match: [{ key: 'user' }], capacity: 50 }))
    plane.admin.plane.put(aPolicy({ capacity: 4_000 }))
    plane.admin.announce()
    await untilBothHave([4_000, 50], CHANGE_BOUND_MS)
  })

  it('that only concerns how requests match reaches them too', async () => {
    plane.admin.plane.put(aPolicy({ id: 2, name: 'other', match: [{ key: 'team' }], capacity: 50 }))
    plane.admin.announce()
    await vi.waitFor(
      async () => {
        for (const { enforcer } of [plane.us, plane.eu]) {
          const { policies } = await enforcer.policies()
          expect(policies.map((policy) => policy.match[0]?.key).sort()).toEqual(['team', 'tenant'])
        }
      },
      { timeout: CHANGE_BOUND_MS, interval: 20 },
    )
  })

  it('that removes a policy makes it vanish', async () => {
    plane.admin.plane.remove(2)
    plane.admin.announce()
    await untilBothHave([4_000], CHANGE_BOUND_MS)
  })

  it('is not undone by an older hint that comes late', async () => {
    const older = plane.admin.plane.revision
    plane.admin.plane.put(aPolicy({ capacity: 5_000 }))
    plane.admin.announce()
    await untilBothHave([5_000], CHANGE_BOUND_MS)
    plane.admin.plane.revision = older
    plane.admin.announce()
    plane.admin.plane.revision = older + 1
    plane.admin.announce()
    await untilBothHave([5_000], CHANGE_BOUND_MS)
    expect(await plane.us.daemon().metric('policy_revision')).toBe(older + 1)
  })

  it('is known to a daemon that starts while admin is away, from its Redis', async () => {
    await plane.us.daemon().stop()
    await plane.admin.close()
    const again = plane.us.start()
    await untilLeading(again)
    expect(await capacities(plane.us)).toEqual([5_000])
    expect(await plane.us.enforcer.check('acme')).toBe(true)
  })
})

describe('a change of the base split', () => {
  let plane: TestPlane

  beforeAll(async () => {
    plane = await startPlane()
    await untilLeading(plane.us.start(), plane.eu.start())
  })

  afterAll(() => plane?.stop())

  it('shrinks the donor before the other grows, and is said to be adopted by both (INV-4)', async () => {
    const before = { 'us-east-1': 600_000, 'eu-west-1': 400_000 }
    const after = { 'us-east-1': 300_000, 'eu-west-1': 700_000 }
    const adopted = new Map<string, number>()
    const listener = new UsageListener(plane.nats.url)
    const stops = [plane.us.enforcer.offer(600), plane.eu.enforcer.offer(600)]
    plane.admin.plane.put(aPolicy({ epoch: 2, base: after, previousBase: before }))
    plane.admin.announce()
    await vi.waitFor(
      async () => {
        // The one that grows first: had it grown by then, the donor must have shrunk before.
        const eu = (await homeOf(plane.eu)) ?? 0
        const us = (await homeOf(plane.us)) ?? 0
        expect(us + eu).toBeLessThanOrEqual(1_000_000)
        for (const record of listener.records) adopted.set(record.from, record.adopted['1'] ?? 0)
        expect([us, eu, adopted.get('us-east-1'), adopted.get('eu-west-1')]).toEqual([
          300_000, 700_000, 2, 2,
        ])
      },
      { timeout: 10_000, interval: 10 },
    )
    plane.admin.plane.put(aPolicy({ epoch: 2, base: after, previousBase: null }))
    plane.admin.announce()
    await vi.waitFor(
      async () => expect(await plane.us.daemon().metric('policy_revision')).toBe(4),
      { timeout: CHANGE_BOUND_MS },
    )
    await Promise.all(stops.map((stop) => stop()))
    await listener.close()
    // Metrics are set with each record.
    await vi.waitFor(async () => expect(await plane.us.daemon().metric('base_epoch')).toBe(2), {
      timeout: CHANGE_BOUND_MS,
    })
    const together = [...plane.us.enforcer.admissions, ...plane.eu.enforcer.admissions]
    expect(overshoot(together, LIMIT)).toBe(0)
  })
})

async function homeOf(region: TestRegion): Promise<number | undefined> {
  const { policies } = await region.enforcer.policies()
  return policies[0]?.limits[0]?.home
}
