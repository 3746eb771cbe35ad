import { Redis } from 'ioredis'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import type { OverrideRule } from '../../../shared/core/overrides.ts'
import { aPolicy } from '../../support/memory-plane.ts'
import { startPlane, type TestPlane, type TestRegion } from './plane.ts'
import { untilLeading } from './region.ts'

/** Long enough for both regions to have it before it ends. */
const LIFE_MS = 4_000

let plane: TestPlane
beforeAll(async () => {
  plane = await startPlane()
  await untilLeading(plane.us.start(), plane.eu.start())
})
afterAll(() => plane?.stop())

const deny: OverrideRule = { kind: 'deny' }

async function tenantsOf({ enforcer }: TestRegion): Promise<readonly string[]> {
  const { policies } = await enforcer.policies()
  const overrides = policies.flatMap((policy) => policy.overrides ?? [])
  return overrides.filter(({ rule }) => rule !== null).map(({ value }) => value)
}

async function redisTimeMs({ redis }: TestRegion): Promise<number> {
  const client = new Redis(redis.url)
  const [seconds = 0, us = 0] = (await client.time()).map(Number)
  client.disconnect()
  return seconds * 1_000 + us / 1_000
}

describe('an override that expires', () => {
  it('ends by itself in every region at its time, while admin is away, and others stay', async () => {
    const regions = [plane.us, plane.eu]
    const expiresAtMs = Math.ceil(await redisTimeMs(plane.us)) + LIFE_MS
    const overrides = [
      { value: 'brief', rule: deny, expiresAtMs },
      { value: 'lasting', rule: deny },
    ]
    plane.admin.plane.put({ ...aPolicy(), overrides })
    plane.admin.announce()
    const untilHave = (tenants: readonly string[]) =>
      vi.waitFor(
        async () => expect(await Promise.all(regions.map(tenantsOf))).toEqual([tenants, tenants]),
        { timeout: 15_000, interval: 20 },
      )
    await untilHave(['brief', 'lasting'])
    await plane.admin.close()
    await untilHave(['lasting'])
    for (const region of regions) {
      expect(await redisTimeMs(region)).toBeGreaterThanOrEqual(expiresAtMs)
    }
  })
})
