import { Redis } from 'ioredis'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import type { EmergencyEffect } from '../../../shared/core/emergency.ts'
import { aPolicy } from '../../support/memory-plane.ts'
import { startPlane, type TestPlane, type TestRegion } from './plane.ts'
import { overshoot, untilLeading } from './region.ts'

const LIMIT = { burst: 100, perSecond: 100 }
const DOUBLED = { burst: 200, perSecond: 200 }

/** Long enough for both regions to have it, and to be cut off, before it ends. */
const LIFE_MS = 4_000

/** The bound on the clocks of regions, and what a write to Redis takes on a busy host. */
const LATE_US = 500_000

let plane: TestPlane
let ids = 0
beforeAll(async () => {
  plane = await startPlane(aPolicy({ capacity: 100, burst: 100 }))
  await untilLeading(plane.us.start(), plane.eu.start())
})
afterAll(() => plane?.stop())

const regions = (): readonly TestRegion[] => [plane.us, plane.eu]

async function redisTimeMs({ redis }: TestRegion): Promise<number> {
  const client = new Redis(redis.url)
  const [seconds = 0, us = 0] = (await client.time()).map(Number)
  client.disconnect()
  return seconds * 1_000 + us / 1_000
}

function begin(effects: readonly EmergencyEffect[], expiresAtMs: number): void {
  const emergency = effects.map((effect) => ({ id: ++ids, effect, expiresAtMs }))
  const policy = aPolicy({ capacity: 100, burst: 100 })
  plane.admin.plane.put(emergency.length === 0 ? policy : { ...policy, emergency })
  plane.admin.announce()
}

async function untilBoth(read: (region: TestRegion) => Promise<unknown>, expected: unknown) {
  await vi.waitFor(
    async () => expect(await Promise.all(regions().map(read))).toEqual([expected, expected]),
    { timeout: 15_000, interval: 20 },
  )
}

const capacity = async ({ enforcer }: TestRegion) =>
  (await enforcer.policies()).policies[0]?.limits[0]?.capacity
const rules = async ({ enforcer }: TestRegion) =>
  ((await enforcer.policies()).policies[0]?.overrides ?? []).map(({ value, rule }) => [
    value,
    rule?.kind,
  ])

describe('an emergency action', () => {
  it('blocks one tenant and lets another through in both regions, until an operator ends it', async () => {
    const never = Math.ceil(await redisTimeMs(plane.us)) + 600_000
    begin(
      [
        { kind: 'block', value: 'mallory' },
        { kind: 'allow', value: 'acme' },
      ],
      never,
    )
    await untilBoth(rules, [
      ['mallory', 'deny'],
      ['acme', 'unlimited'],
    ])
    begin([], never)
    await untilBoth(rules, [])
  })

  it('that fixes a limit at nothing denies all in both regions', async () => {
    const never = Math.ceil(await redisTimeMs(plane.us)) + 600_000
    begin([{ kind: 'fix', limit: 'per-second', capacity: 0, burst: 0 }], never)
    await untilBoth(capacity, 0)
    begin([], never)
    await untilBoth(capacity, 100)
  })

  it('that multiplies a limit ends by itself where a region is cut off, and nobody passes the limit after', async () => {
    const expiresAtMs = Math.ceil(await redisTimeMs(plane.us)) + LIFE_MS
    begin([{ kind: 'multiply', limit: 'per-second', factor: 2 }], expiresAtMs)
    await untilBoth(capacity, 200)
    const stops = regions().map(({ enforcer }) => enforcer.offer(200, 'umbrella'))
    // From here on no region hears another, nor admin.
    await plane.admin.close()
    await plane.nats.stop()
    await untilBoth(capacity, 100)
    for (const region of regions()) {
      expect(await redisTimeMs(region)).toBeGreaterThanOrEqual(expiresAtMs)
    }
    const seen = regions().map(({ enforcer }) => enforcer.admissions.length)
    await vi.waitFor(
      () => {
        const more = regions().map(
          ({ enforcer }, at) => enforcer.admissions.length - (seen[at] ?? 0),
        )
        expect(Math.min(...more)).toBeGreaterThan(60)
      },
      { timeout: 15_000, interval: 50 },
    )
    await Promise.all(stops.map((stop) => stop()))
    const all = regions().flatMap(({ enforcer }) => enforcer.admissions)
    expect(overshoot(all, DOUBLED)).toBe(0)
    const after = all.filter(({ atUs }) => atUs >= expiresAtMs * 1_000 + LATE_US)
    expect(after.length).toBeGreaterThan(100)
    expect(overshoot(after, LIMIT)).toBe(0)
  })
})
