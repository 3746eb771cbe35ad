import { afterAll, beforeAll, expect, it, vi } from 'vitest'
import { aPolicy } from '../../support/memory-plane.ts'
import { holdsInATry } from '../../support/tries.ts'
import { LIMIT, startPlane, type TestPlane, type TestRegion } from './plane.ts'
import { overshoot, tenantCounter, untilLeading } from './region.ts'

/** Two regions with one token bucket, each of whose keys is counted in four parts. */

const SHARDS = 4

let plane: TestPlane

beforeAll(async () => {
  plane = await startPlane(aPolicy({ shards: SHARDS }))
  await untilLeading(plane.us.start(), plane.eu.start())
})
afterAll(() => plane?.stop())

/** Units of each part that a region may use, as its ledger last had the store confirm them. */
function unitsOf(region: TestRegion): readonly number[] {
  const { ledger } = region.daemon().service.memory
  return Array.from({ length: SHARDS }, (_, part) => {
    const written = ledger.keys.get(tenantCounter(1, 'hot', 0, part))?.written
    return written === null || written === undefined ? 0 : written.home + written.borrowed
  })
}

it('lend of every part what the other region is short of, and never admit more than the limit together (INV-2, INV-5)', async () => {
  const { us, eu } = plane
  const stops = [us.enforcer.offer(120, 'hot'), eu.enforcer.offer(1_080, 'hot')]
  await vi.waitFor(() => expect(Math.min(...unitsOf(eu))).toBeGreaterThan(780_000), {
    timeout: 30_000,
    interval: 20,
  })
  const admittedPerSecond = async (): Promise<number> => {
    const before = eu.enforcer.admitted
    const startMs = performance.now()
    await vi.waitFor(() => expect(eu.enforcer.admitted - before).toBeGreaterThan(1_200), {
      timeout: 20_000,
      interval: 20,
    })
    return ((eu.enforcer.admitted - before) * 1_000) / (performance.now() - startMs)
  }
  await holdsInATry(admittedPerSecond, {
    once: (perSecond) => expect(perSecond).toBeGreaterThan(750),
  })
  await Promise.all(stops.map((stop) => stop()))
  expect(us.enforcer.failed + eu.enforcer.failed).toBe(0)
  expect(overshoot([...us.enforcer.admissions, ...eu.enforcer.admissions], LIMIT)).toBe(0)
  for (const region of [us, eu]) {
    await vi.waitFor(
      async () => expect(await region.daemon().metric('share_sum_ratio')).toBeGreaterThan(0.9),
      { timeout: 5_000, interval: 50 },
    )
    expect(await region.daemon().metric('share_sum_ratio')).toBeLessThanOrEqual(1)
  }
})
