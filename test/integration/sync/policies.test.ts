import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { aPolicy } from '../../support/memory-plane.ts'
import { startPlane, type TestPlane, type TestRegion } from './plane.ts'
import { untilLeading } from './region.ts'

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

describe('a policy change', () => {
  it('reaches the enforcers of both regions in time, each with the part of its own', async () => {
    plane.admin.plane.put(aPolicy({ capacity: 2_000 }))
    plane.admin.announce()
    await untilBothHave([2_000], CHANGE_BOUND_MS)
    const homes = await Promise.all(
      [plane.us, plane.eu].map(async ({ enforcer }) => {
        const { policies } = await enforcer.policies()
        return policies[0]?.limits[0]?.home
      }),
    )
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
