/** Tiers of a policy document, and what one tenant has in place of its policy's numbers. */
import { z } from 'zod'
import { ENTRY_VALUE_BYTES_MAX } from '../core/descriptor.ts'
import { holdingOf } from '../core/enforced.ts'
import type { NumbersByLimit } from '../core/overrides.ts'
import { type Algorithm, hasBurst } from '../core/policy.ts'
import { TOKENS_MAX } from '../core/units.ts'
import { describeType, nameSchema, nonEmptyText, whole } from './policy-fields.ts'
import { shardedNumbersMisfits } from './policy-shards.ts'
import type { Fixes } from './zod-problems.ts'

/** Most overrides of one policy. */
export const OVERRIDES_MAX = 10_000

/** Bytes of all overrides of one policy as JSON: with its description they must fit a NATS message of a megabyte. */
export const OVERRIDES_BYTES_MAX = 768 * 1024

/** A tier is a price list's line; more than this is data and belongs in overrides. */
export const TIERS_MAX = 32

export const OVERRIDE_FIXES: Fixes = {
  tiers: 'give numbers by limit and tier, such as {"pro":{"per-minute":{"capacity":600}}}',
  overridesBy: 'name a key of the match, or leave it out for the first with many values',
  tier: 'name a tier of the policy, such as {"tier":"pro"}',
  rule: 'give one of tier, limits, "unlimited": true and "deny": true',
  expiresAt: 'give a time such as "2027-01-31T00:00:00Z" that is still to come, or leave it out',
}

const numbersSchema = z.strictObject(
  { capacity: whole(0, TOKENS_MAX), burst: whole(1, TOKENS_MAX).exactOptional() },
  { error: describeType('an object of numbers') },
)

export const numbersByLimitSchema = z.record(nameSchema, numbersSchema, {
  error: describeType('an object of numbers by limit'),
})

export const tiersSchema = z
  .record(nameSchema, numbersByLimitSchema, { error: describeType('an object of tiers') })
  .refine((tiers) => Object.keys(tiers).length <= TIERS_MAX, {
    error: `has more than ${TIERS_MAX} tiers`,
  })

/** What one tenant has, as an operator puts it. Exactly one of the first four. */
export const overridePutSchema = z
  .strictObject(
    {
      tier: nameSchema.exactOptional(),
      limits: numbersByLimitSchema.exactOptional(),
      unlimited: z.literal(true, { error: 'must be true' }).exactOptional(),
      deny: z.literal(true, { error: 'must be true' }).exactOptional(),
      expiresAt: z.iso.datetime({ error: 'is not a time in UTC' }).exactOptional(),
    },
    { error: describeType('a JSON object') },
  )
  .refine(
    ({ tier, limits, unlimited, deny }) =>
      [tier, limits, unlimited, deny].filter((rule) => rule !== undefined).length === 1,
    { path: ['rule'], error: 'must be exactly one of tier, limits, unlimited and deny' },
  )
  .meta({ id: 'OverridePut' })
export type OverridePut = z.output<typeof overridePutSchema>

export const tenantValueSchema = nonEmptyText(ENTRY_VALUE_BYTES_MAX)

interface OverriddenLimit {
  readonly name: string
  readonly algorithm: Algorithm
  readonly windowMs?: number | undefined
  readonly calendar?: unknown
  readonly shards?: number
}

/** What is wrong with numbers that are to stand in place of the limits' own: by path, a message. */
export function numbersProblems(
  numbers: NumbersByLimit,
  limits: readonly OverriddenLimit[],
  mode: string,
): readonly { readonly path: readonly string[]; readonly message: string }[] {
  const varied = Object.entries(numbers).flatMap(([name, { capacity, burst }]) => {
    const limit = limits.find((one) => one.name === name)
    if (limit === undefined) return [{ path: [name], message: 'is not a limit of this policy' }]
    const held = { ...limit, windowMs: limit.windowMs ?? 1, calendar: limit.calendar ?? null }
    if (holdingOf({ mode }, held as Parameters<typeof holdingOf>[1]) !== 'share') {
      const message =
        'cannot be varied: only limits that are shared, with windows under a day, can; give the tenant, or its tier, a policy of its own'
      return [{ path: [name], message }]
    }
    if (burst === undefined || (hasBurst(limit.algorithm) && capacity > 0)) return []
    const message = capacity === 0 ? 'a capacity of 0 has no burst' : 'this algorithm has no burst'
    return [{ path: [name, 'burst'], message }]
  })
  return [...varied, ...shardedNumbersMisfits(numbers, limits)]
}
