/**
 * Changes of single tenants' variants as changes of their limits: with the numbers they had before.
 *
 * A tenant whose variant changed carries stamps, and carries them through every further change of its limit, until no
 * counter can be found that was settled before them and unused buckets are full. So its limit changes exactly as one of
 * its own would, and ten thousand overrides at rest are ten thousand values and rules.
 */
import type { LimitChange } from './algorithms/stamp-limit.ts'
import { keptLongestUs, stampLimit } from './algorithms/stamp-limit.ts'
import { levelOf } from './algorithms/token-bucket.ts'
import {
  numbersOf,
  type Override,
  type OverrideRule,
  type RegionOverride,
  stampedVariant,
  type Tiers,
  type VariantStamp,
  variantOf,
} from './overrides.ts'
import type { RegionLimit, RegionPolicy } from './policy.ts'
import { shareBurst } from './units.ts'

/** A policy as it is about to be written, its limits stamped. */
export interface StampedPolicy {
  readonly limits: readonly RegionLimit[]
  readonly tiers?: Tiers
  readonly overrides?: readonly Override[]
}

/** The overrides that the region enforces from `change` on; undefined without any. */
export function stampOverrides(
  before: RegionPolicy | undefined,
  after: StampedPolicy,
  change: LimitChange,
): readonly RegionOverride[] | undefined {
  const wanted = new Map((after.overrides ?? []).map(({ value, rule }) => [value, rule]))
  const known = new Map((before?.overrides ?? []).map((override) => [override.value, override]))
  const isSamePolicy = before === undefined || isSameForAll(before, after)
  const stamped = [...new Set([...wanted.keys(), ...known.keys()])].flatMap((value) => {
    const rule = wanted.get(value) ?? null
    const old = known.get(value)
    const isSame = isSamePolicy && (before === undefined || isSameRule(old?.rule ?? null, rule))
    const isAtRest = before === undefined || (isSame && old?.stamps === undefined)
    const stamps = isAtRest ? undefined : stampsOf({ before, old, after, rule, change })
    if (rule === null && stamps === undefined) return []
    return [{ value, rule, ...(stamps !== undefined && { stamps }) }]
  })
  return stamped.length === 0 ? undefined : stamped
}

/** Whether nothing changed that all tenants have. */
function isSameForAll(before: RegionPolicy, after: StampedPolicy): boolean {
  if (JSON.stringify(before.tiers) !== JSON.stringify(after.tiers)) return false
  return after.limits.every(({ id, name, version }) =>
    before.limits.some((one) => one.id === id && one.name === name && one.version === version),
  )
}

function isSameRule(one: OverrideRule | null, other: OverrideRule | null): boolean {
  return JSON.stringify(one) === JSON.stringify(other)
}

interface Move {
  readonly before: RegionPolicy
  readonly old: RegionOverride | undefined
  readonly after: StampedPolicy
  readonly rule: OverrideRule | null
  readonly change: LimitChange
}

function stampsOf(move: Move) {
  const stamps: Record<string, VariantStamp> = {}
  for (const limit of move.after.limits) {
    const limitBefore = move.before.limits.find(({ id }) => id === limit.id)
    if (limitBefore === undefined || limit.candidateOf !== null) continue
    const stamp = stampOf(move, limitBefore, limit)
    if (stamp !== null) stamps[limit.id] = stamp
  }
  return Object.keys(stamps).length === 0 ? undefined : stamps
}

/** Null where the tenant needs none. */
function stampOf(
  { before, old, after, rule, change }: Move,
  limitBefore: RegionLimit,
  limit: RegionLimit,
): VariantStamp | null {
  const numbersBefore = numbersOf(old?.rule ?? null, before.tiers ?? {}, limitBefore.name)
  const stamp = old?.stamps?.[limit.id]
  const had = stampedVariant(variantOf(limitBefore, numbersBefore), stamp)
  const bare = variantOf(limit, numbersOf(rule, after.tiers ?? {}, limit.name))
  const has = stampLimit(had, specOf(bare), change)
  if (stamp === undefined && isAsBare(bare, { had, has })) return null
  if (isForgotten(has, change)) return null
  const { version, previous, changedAtUs, idle } = has
  return { version, previous, changedAtUs, idle }
}

function specOf(limit: RegionLimit) {
  const { version: _v, previous: _p, changedAtUs: _c, idle: _i, ...spec } = limit
  return spec
}

/** Whether a variant without a stamp lets no counter have more than its own change does. */
function isAsBare(
  bare: RegionLimit,
  { had, has }: { readonly had: RegionLimit; readonly has: RegionLimit },
): boolean {
  const isSameFill =
    had.capacity === has.capacity && had.burst === has.burst && had.windowMs === has.windowMs
  // Where the limit changed and the variant did not, its counters are settled across a change to the same numbers.
  const isSamePast =
    has.version === had.version ||
    (has.version === bare.version && JSON.stringify(has.previous) === JSON.stringify(bare.previous))
  const isNoFuller = bare.idle.tokens <= has.idle.tokens && bare.idle.atUs >= has.idle.atUs
  return isSameFill && isSamePast && isNoFuller
}

/** Whether all states from before the change are gone, and unused buckets as full as if it had always been so. */
function isForgotten(limit: RegionLimit, { nowUs, boot }: LimitChange): boolean {
  const { idle, previous, changedAtUs, burst, home } = limit
  const goneUs = Math.max(idle.held?.untilUs ?? 0, changedAtUs + keptLongestUs(previous ?? limit))
  return nowUs > goneUs && levelOf(limit, boot, nowUs) >= shareBurst(burst, home)
}
