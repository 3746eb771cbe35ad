/**
 * What single tenants have in place of their policy's numbers: a tier, numbers of their own, everything or nothing.
 *
 * All variants of a limit share its id, so that a tenant's counter, and with it what it has used, outlives each move
 * between them; and its base split, so that a region's part of any of them is the same part.
 */
import type { MatchEntry, RegionLimit } from './policy.ts'
import { shareBurst } from './units.ts'

/** Numbers that stand in place of a limit's own; a burst left out follows the capacity. */
export interface Numbers {
  readonly capacity: number
  readonly burst?: number
}

/** Numbers by the name of the limit; limits that are not named keep theirs. */
export type NumbersByLimit = Readonly<Record<string, Numbers>>

/** By the tier's name. */
export type Tiers = Readonly<Record<string, NumbersByLimit>>

export type OverrideRule =
  | { readonly kind: 'tier'; readonly tier: string }
  | { readonly kind: 'numbers'; readonly limits: NumbersByLimit }
  | { readonly kind: 'unlimited' }
  | { readonly kind: 'deny' }

/** What one value of the policy's `overridesBy` entry has. `expiresAtMs` by the clock of each region's Redis. */
export interface Override {
  readonly value: string
  readonly rule: OverrideRule
  readonly expiresAtMs?: number
}

/** What `stampLimit` adds to a limit, kept of a tenant whose variant changed. */
export type VariantStamp = Pick<RegionLimit, 'version' | 'previous' | 'changedAtUs' | 'idle'>

/**
 * An override as one region enforces it. `rule` null: there is none any more, and only the stamps are left until no
 * counter can still be settled with what it had. Stamps by the limit's id.
 */
export interface RegionOverride {
  readonly value: string
  readonly rule: OverrideRule | null
  readonly stamps?: Readonly<Record<string, VariantStamp>>
}

/** Place in a match of the entry whose value names the tenant: the one called `key`, or the first with many values. */
export function overrideEntry(match: readonly MatchEntry[], key: string | null): number {
  const place =
    key === null
      ? match.findIndex(
          ({ value, shared }) => shared !== true && (value === undefined || value.includes('*')),
        )
      : match.findIndex((entry) => entry.key === key)
  return Math.max(0, place)
}

/** The numbers that `rule` puts in place of a limit's; null where the limit keeps its own. */
export function numbersOf(
  rule: OverrideRule | null,
  tiers: Tiers,
  limitName: string,
): Numbers | null {
  if (rule === null) return null
  // Own properties only: a tier may have any name.
  const byLimit =
    rule.kind === 'tier' ? own(tiers, rule.tier) : rule.kind === 'numbers' ? rule.limits : undefined
  return (byLimit === undefined ? undefined : own(byLimit, limitName)) ?? null
}

function own<T>(record: Readonly<Record<string, T>>, name: string): T | undefined {
  return Object.hasOwn(record, name) ? record[name] : undefined
}

/**
 * A limit with the numbers of a variant, as a tenant has it that always had them.
 *
 * Its past is the limit's with the same numbers in it, for they did not change when the limit did.
 */
export function variantOf(limit: RegionLimit, numbers: Numbers | null): RegionLimit {
  if (numbers === null) return limit
  const { capacity, burst = capacity } = numbers
  const { nominal: _nominal, ...rest } = limit
  const { previous, idle } = limit
  const full = shareBurst(limit.burst, limit.home)
  // As full as an unused bucket of the limit is.
  const part = full === 0 ? 0 : Math.min(1, idle.tokens / full)
  return {
    ...rest,
    ...(limit.shards > 1 && { nominal: capacity * limit.shards }),
    capacity,
    burst,
    previous: previous === null ? null : { ...previous, capacity, burst },
    idle: { tokens: part * shareBurst(burst, limit.home), atUs: idle.atUs },
  }
}

/** A variant of a tenant whose past is its own: the stamp holds all of it, changes of the limit included. */
export function stampedVariant(variant: RegionLimit, stamp: VariantStamp | undefined): RegionLimit {
  return stamp === undefined ? variant : { ...variant, ...stamp }
}
