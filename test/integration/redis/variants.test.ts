import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { Override, OverrideRule } from '../../../shared/core/overrides.ts'
import { ALGORITHMS, type Algorithm, type RegionLimit } from '../../../shared/core/policy.ts'
import type { RequestCheck } from '../../../shared/core/ports.ts'
import { POOL_UNITS } from '../../../shared/core/units.ts'
import { policyOverrides, tenantLimit } from '../../../shared/core/variant-index.ts'
import { randomOf } from '../../support/random.ts'
import { aLimit, NOON_US, policyOf, RedisRegion, shareOf } from '../../support/redis-region.ts'
import { TwinRegion } from '../../support/twin-region.ts'

/**
 * Tenants that move between overrides, on a real Redis and by the pure algorithms side by side. A failure names its
 * seed; `SEED=<n>` runs that one alone.
 */

const STEPS = 40
const TENANTS = ['acme', 'globex', 'other']
const SEEDS = process.env['SEED'] === undefined ? 12 : 1
const FIRST_SEED = Number(process.env['SEED'] ?? 1)
const HOMES = [0, 1, 333_333, 500_000, POOL_UNITS]
/** The last is long enough for all that is kept of a move to be dropped. */
const STEPS_MS = [0.5, 33, 1_000, 9_000, 86_000, 700_000, 3_000_000]

const TIERS = { pro: { 'per-second': { capacity: 600 } }, free: { 'per-second': { capacity: 6 } } }
const numbers = (capacity: number, burst: number): OverrideRule => ({
  kind: 'numbers',
  limits: { 'per-second': { capacity, burst } },
})
const RULES: readonly (OverrideRule | null)[] = [
  null,
  { kind: 'tier', tier: 'pro' },
  { kind: 'tier', tier: 'free' },
  numbers(120, 240),
  numbers(6, 60),
]

let region: RedisRegion
beforeAll(async () => {
  region = await RedisRegion.start()
})
afterAll(() => region.stop())

type Rules = ReadonlyMap<string, OverrideRule | null>

async function write(algorithm: Algorithm, rules: Rules, home = POOL_UNITS): Promise<void> {
  const limit = aLimit({ algorithm, capacity: 60, windowMs: 60_000, home })
  const overrides: Override[] = [...rules].flatMap(([value, rule]) =>
    rule === null ? [] : [{ value, rule }],
  )
  await region.writePolicies([{ ...policyOf(limit), tiers: TIERS, overrides }])
}

/** The limit as an enforcer finds it for a tenant. */
function limitOf(tenant: string): RegionLimit {
  const [policy] = region.policies
  if (policy === undefined) throw new Error('a policy was written')
  return tenantLimit(policy, region.limit(), policyOverrides(policy)?.byValue.get(tenant))
}

function checkOf(tenant: string, cost: number, requestId = 'request'): RequestCheck {
  const check = region.target(cost, tenant)
  const targets = check.targets.map((target) => ({ ...target, limit: limitOf(tenant) }))
  return { ...check, targets, requestId }
}

async function begin(algorithm: Algorithm): Promise<TwinRegion> {
  await region.time.set(NOON_US)
  await region.begin([aLimit({ algorithm, capacity: 60, windowMs: 60_000 })])
  return new TwinRegion()
}

async function live(algorithm: Algorithm, seed: number): Promise<void> {
  const random = randomOf(seed)
  const twin = await begin(algorithm)
  const rules = new Map<string, OverrideRule | null>()
  const check = async (): Promise<void> => {
    const asked = checkOf(random.pick(TENANTS), random.pick([0, 1, 3, 50]), `${random.below(9)}`)
    const { decisions } = await region.checks.check(asked, region.version)
    expect(decisions).toEqual(twin.check(asked, region.time.us))
  }
  const share = async (): Promise<void> => {
    const tenant = random.pick(TENANTS)
    const home = random.pick(HOMES)
    const wanted = { ...shareOf(region.counter(tenant), home), shrinks: random.below(2) === 0 }
    const expected = twin.writeShare(wanted, limitOf(tenant), region.time.us)
    expect((await region.daemon.writeShares([wanted])).get(wanted.id)).toBe(expected)
  }
  const move = (): Promise<void> => {
    rules.set(random.pick(TENANTS), random.pick(RULES))
    return write(algorithm, rules, random.pick(HOMES))
  }
  const pass = (): Promise<void> => region.time.advanceMs(random.pick(STEPS_MS))
  for (let step = 0; step < STEPS; step++) {
    await random.pick([check, check, check, share, move, pass])()
  }
}

describe('the scripts on Redis', () => {
  it.each(ALGORITHMS)(
    `decide for tenants that move between overrides of a %s as the pure algorithm does`,
    { timeout: 60_000 },
    async (algorithm) => {
      for (let seed = FIRST_SEED; seed < FIRST_SEED + SEEDS; seed++) {
        try {
          await live(algorithm, seed)
        } catch (err) {
          throw new Error(`SEED=${seed}`, { cause: err })
        }
      }
    },
  )

  it('still decide for a tenant that never paused, long after its override ended', async () => {
    const twin = await begin('token_bucket')
    const moves: readonly Rules[] = [new Map([['acme', RULES[1] ?? null]]), new Map(), new Map()]
    for (const rules of moves) {
      await region.time.advanceMs(700_000)
      await write('token_bucket', rules, POOL_UNITS)
      const asked = checkOf('acme', 1)
      const { decisions } = await region.checks.check(asked, region.version)
      expect(decisions).toEqual(twin.check(asked, region.time.us))
    }
    expect(region.policies[0]?.overrides).toBeUndefined()
    expect(await region.share({ id: region.counter() })).toBe('written')
  })
})
