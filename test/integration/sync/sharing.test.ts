import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { aPolicy } from '../../support/memory-plane.ts'
import { LIMIT, startPlane, type TestPlane } from './plane.ts'
import { overshoot, tenantCounter, untilLeading } from './region.ts'

/** Units that a region may use of the tenant's counter, as its ledger last had the store confirm them. */
function unitsOf(region: TestPlane['us'], tenant: string): number | undefined {
  const { ledger } = region.daemon().service.memory
  const written = ledger.keys.get(tenantCounter(1, tenant))?.written
  return written === null || written === undefined ? undefined : written.home + written.borrowed
}

describe('two regions with one token bucket', () => {
  let plane: TestPlane

  beforeAll(async () => {
    plane = await startPlane()
    await untilLeading(plane.us.start(), plane.eu.start())
  })

  afterAll(() => plane?.stop())

  it('move shares from 60/40 toward the busier side, and never admit more than the limit together (INV-2, INV-5)', async () => {
    const { us, eu } = plane
    const stopUs = us.enforcer.offer(120, 'busy')
    const stopEu = eu.enforcer.offer(1_080, 'busy')
    await vi.waitFor(() => expect(unitsOf(eu, 'busy')).toBeGreaterThan(820_000), {
      timeout: 8_000,
      interval: 20,
    })
    const before = eu.enforcer.admitted
    const startMs = performance.now()
    await vi.waitFor(() => expect(eu.enforcer.admitted - before).toBeGreaterThan(1_700), {
      timeout: 8_000,
      interval: 20,
    })
    const perSecond = ((eu.enforcer.admitted - before) * 1_000) / (performance.now() - startMs)
    await Promise.all([stopUs(), stopEu()])
    expect(perSecond).toBeGreaterThan(780)
    expect(us.enforcer.failed + eu.enforcer.failed).toBe(0)
    const together = [...us.enforcer.admissions, ...eu.enforcer.admissions]
    expect(overshoot(together, LIMIT)).toBe(0)
  })

  it('have shares that sum to no more than the limit, by their own audit', async () => {
    const { us, eu } = plane
    for (const region of [us, eu]) {
      await vi.waitFor(
        async () => {
          const ratio = await region.daemon().metric('share_sum_ratio')
          expect(ratio).toBeGreaterThan(0.9)
          expect(ratio).toBeLessThanOrEqual(1)
        },
        { timeout: 5_000, interval: 50 },
      )
    }
  })

  it('say what is lent, to whom, and for how long', async () => {
    const { us, eu } = plane
    await vi.waitFor(
      async () => {
        const out = await us.daemon().metric('loans_out_units', { peer: 'eu-west-1' })
        const borrowed = await eu.daemon().metric('loans_in_units', { peer: 'us-east-1' })
        expect(out).toBeGreaterThan(0)
        expect(borrowed).toBe(out)
      },
      { timeout: 5_000, interval: 50 },
    )
    const left = await eu.daemon().metric('loans_in_remaining_seconds', { peer: 'us-east-1' })
    expect(left).toBeGreaterThan(5)
    expect(await eu.daemon().metric('convergence_lag_seconds')).toBeLessThan(2.5)
    expect(await us.daemon().metric('tracked_keys')).toBe(1)
  })
})

describe('two regions with one fixed window', () => {
  let plane: TestPlane

  beforeAll(async () => {
    plane = await startPlane(aPolicy({ algorithm: 'fixed_window' }))
    await untilLeading(plane.us.start(), plane.eu.start())
  })

  afterAll(() => plane?.stop())

  it('move shares back and forth, and admit no more than the limit in any window (INV-6)', async () => {
    const { us, eu } = plane
    for (const [busy, idle] of [
      [eu, us],
      [us, eu],
    ] as const) {
      const stops = [busy.enforcer.offer(1_080, 'busy'), idle.enforcer.offer(120, 'busy')]
      await vi.waitFor(() => expect(unitsOf(busy, 'busy')).toBeGreaterThan(820_000), {
        timeout: 8_000,
        interval: 20,
      })
      await Promise.all(stops.map((stop) => stop()))
    }
    const inWindow = new Map<number, number>()
    for (const { atUs, cost } of [...us.enforcer.admissions, ...eu.enforcer.admissions]) {
      const window = Math.floor(atUs / 1e6)
      inWindow.set(window, (inWindow.get(window) ?? 0) + cost)
    }
    expect(Math.max(...inWindow.values())).toBeLessThanOrEqual(LIMIT.perSecond)
    expect(us.enforcer.failed + eu.enforcer.failed).toBe(0)
  })
})
