import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { LOW_PART } from '../../../shared/core/stock/counter.ts'
import { aPolicy } from '../../support/memory-plane.ts'
import { startPlane, type TestPlane } from './plane.ts'
import { untilLeading } from './region.ts'

const MONTH_MS = 30 * 86_400_000
const CAPACITY = 400

/**
 * What a lost Redis may waste of a counter: an allotment, which is at most a quarter of what two regions have beside
 * their floors, and what was left of the one before when it was asked for.
 */
const LARGEST_ALLOTMENT = (CAPACITY * 0.9) / 4
const WASTED_MAX = LARGEST_ALLOTMENT + Math.ceil(LARGEST_ALLOTMENT / LOW_PART)

/** A month's limit over two regions on real Redis and NATS (B023, B116; PROTOCOL I7). */
describe('two regions with the stock of a month', () => {
  let plane: TestPlane

  beforeAll(async () => {
    plane = await startPlane(
      aPolicy({ algorithm: 'fixed_window', capacity: CAPACITY, windowMs: MONTH_MS }),
    )
    await untilLeading(plane.us.start(), plane.eu.start())
  })
  afterAll(() => plane?.stop())

  const together = (): number => plane.us.enforcer.admitted + plane.eu.enforcer.admitted

  /** Asks one region until `tokens` more were admitted there. */
  async function spend(region: TestPlane['us'], tokens: number, tenant: string): Promise<void> {
    const target = region.enforcer.admitted + tokens
    await vi.waitFor(
      async () => {
        while (await region.enforcer.check(tenant)) {
          if (region.enforcer.admitted >= target) return
        }
        throw new Error(`${target - region.enforcer.admitted} tokens are still to be admitted`)
      },
      { timeout: 20_000, interval: 50 },
    )
  }

  /**
   * Asks until neither region has been given anything for a while, and together they admitted more than `beyond`. What a
   * region is given after an answer that said nothing may take longer than any while.
   */
  async function exhaust(tenant: string, beyond = 0): Promise<void> {
    let last = -1
    let quiet = 0
    await vi.waitFor(
      async () => {
        await plane.us.enforcer.check(tenant)
        await plane.eu.enforcer.check(tenant)
        quiet = together() === last ? quiet + 1 : 0
        last = together()
        expect(last).toBeGreaterThan(beyond)
        expect(quiet).toBeGreaterThan(20)
      },
      { timeout: 30_000, interval: 50 },
    )
  }

  it('spend what one of them asks for far beyond its base, and all of it together (INV-10)', async () => {
    const before = together()
    await spend(plane.us, 300, 'acme')
    await spend(plane.eu, 30, 'acme')
    await exhaust('acme', before + CAPACITY * 0.97)
    expect(together() - before).toBeLessThanOrEqual(CAPACITY)
  })

  // Before a Redis is lost: the floors of its region stay out of a window that it has forgotten.
  it('waste nothing of what is given by an answer that is lost', async () => {
    const before = together()
    plane.admin.plane.stockAnswersToLose = 1
    await spend(plane.us, 60, 'hooli')
    expect(plane.admin.plane.stockAnswersToLose).toBe(0)
    // It gave a hundredth of the window, and is asked for again after some seconds.
    await vi.waitFor(
      async () => {
        await plane.us.enforcer.check('hooli')
        await plane.eu.enforcer.check('hooli')
        expect(together() - before).toBeGreaterThan(CAPACITY * 0.99)
      },
      { timeout: 20_000, interval: 50 },
    )
    await exhaust('hooli')
    expect(together() - before).toBeLessThanOrEqual(CAPACITY)
  })

  it('never pass the limit though one loses its Redis, which wastes what it held at most', async () => {
    const before = together()
    await spend(plane.us, 100, 'globex')
    await spend(plane.eu, 20, 'globex')
    await plane.us.redis.restart()
    await spend(plane.us, 50, 'globex')
    await exhaust('globex', before + CAPACITY - WASTED_MAX)
    expect(together() - before).toBeLessThanOrEqual(CAPACITY)
  })

  it('go on with what they hold while Postgres is away, and ask again when it is back', async () => {
    await spend(plane.us, 20, 'initech')
    plane.admin.plane.isStockAway = true
    const before = together()
    await exhaust('initech')
    expect(together() - before).toBeLessThan(CAPACITY / 2)
    plane.admin.plane.isStockAway = false
    await spend(plane.eu, 50, 'initech')
  })

  it('lose nothing when another daemon takes over', async () => {
    const before = together()
    await spend(plane.us, 60, 'umbrella')
    await plane.us.daemon().stop()
    await untilLeading(plane.us.start())
    await spend(plane.us, 60, 'umbrella')
    await exhaust('umbrella', before + CAPACITY * 0.97)
    expect(together() - before).toBeLessThanOrEqual(CAPACITY)
  })
})
