import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { LIMIT, startPlane, type TestPlane } from './plane.ts'
import { overshoot, untilLeading } from './region.ts'

let plane: TestPlane

beforeEach(async () => {
  plane = await startPlane()
  await untilLeading(plane.us.start(), plane.eu.start())
})

afterEach(() => plane?.stop())

const offerBoth = () => {
  const stops = [plane.us.enforcer.offer(200), plane.eu.enforcer.offer(1_000)]
  return () => Promise.all(stops.map((stop) => stop()))
}

const together = () => [...plane.us.enforcer.admissions, ...plane.eu.enforcer.admissions]

describe('a region without NATS', () => {
  it('starts anyway with its own part, and joins the others when NATS comes', async () => {
    await plane.eu.daemon().stop()
    await plane.nats.halt()
    const daemon = plane.eu.start()
    await untilLeading(daemon)
    expect(await daemon.metric('bus_connected')).toBe(0)
    expect(await plane.eu.enforcer.check('acme')).toBe(true)
    await plane.nats.start()
    const stop = offerBoth()
    await vi.waitFor(
      async () => {
        expect(await daemon.metric('bus_connected')).toBe(1)
        expect(await daemon.metric('loans_in_units')).toBeGreaterThan(300_000)
      },
      { timeout: 12_000, interval: 50 },
    )
    await stop()
    expect(overshoot(together(), LIMIT)).toBe(0)
  })

  it('goes on through an outage, falls back to its own part, and borrows again after it', async () => {
    const stop = offerBoth()
    const borrowed = () => plane.eu.daemon().metric('loans_in_units')
    await vi.waitFor(async () => expect(await borrowed()).toBeGreaterThan(300_000), {
      timeout: 8_000,
      interval: 50,
    })
    plane.nats.pause()
    await vi.waitFor(async () => expect(await borrowed()).toBe(0), {
      timeout: 13_000,
      interval: 50,
    })
    expect(await plane.eu.daemon().metric('lapses_total')).toBe(1)
    plane.nats.resume()
    await vi.waitFor(async () => expect(await borrowed()).toBeGreaterThan(300_000), {
      timeout: 12_000,
      interval: 50,
    })
    await stop()
    expect(plane.us.enforcer.failed + plane.eu.enforcer.failed).toBe(0)
    expect(overshoot(together(), LIMIT)).toBe(0)
  })
})
