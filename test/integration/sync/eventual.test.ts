import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { aPolicy } from '../../support/memory-plane.ts'
import { startPlane, type TestPlane } from './plane.ts'
import { untilLeading } from './region.ts'

const HOUR_MS = 3_600_000

/** A tiny limit over two regions on real Redis and NATS (S17). */
describe('two regions with an eventual limit of 5', () => {
  let plane: TestPlane

  beforeAll(async () => {
    const policy = aPolicy({ algorithm: 'fixed_window', capacity: 5, windowMs: HOUR_MS })
    plane = await startPlane({ ...policy, mode: 'eventual' })
    await untilLeading(plane.us.start(), plane.eu.start())
  })
  afterAll(() => plane?.stop())

  it('let the first request pass in each, and count together', async () => {
    const { us, eu } = plane
    expect(await us.enforcer.check('acme')).toBe(true)
    expect(await eu.enforcer.check('acme')).toBe(true)
    expect(await us.enforcer.check('acme', 3)).toBe(true)
    await vi.waitFor(async () => expect(await eu.enforcer.check('acme')).toBe(false), {
      timeout: 10_000,
      interval: 50,
    })
    expect(us.enforcer.admitted + eu.enforcer.admitted).toBeLessThanOrEqual(10)
  })

  it('admit up to the limit each while they hear nothing of one another', async () => {
    const { us, eu } = plane
    const before = us.enforcer.admitted + eu.enforcer.admitted
    await plane.nats.stop()
    for (const region of [us, eu]) {
      for (let check = 0; check < 8; check++) await region.enforcer.check('globex')
    }
    expect(us.enforcer.admitted + eu.enforcer.admitted - before).toBe(10)
  })
})
