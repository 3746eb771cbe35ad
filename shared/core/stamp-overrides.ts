/**
 * Changes of single tenants' variants as changes of their limits: with the numbers they had before.
 *
 * Only tenants that changed carry stamps, and only until no counter can still be settled with what they had, so ten
 * thousand overrides at rest are ten thousand values and rules.
 */
import type { LimitChange } from './algorithms/stamp-limit.ts'
import { stampLimit } from './algorithms/stamp-limit.ts'
import { tokenBucket } from './algorithms/token-bucket.ts'
import {
  type Numbers,
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
  const isTierSame = JSON.stringify(before?.tiers) === JSON.stringify(after.tiers)
  const stamped = [...new Set([...wanted.keys(), ...known.keys()])].flatMap((value) => {
    const rule = wanted.get(value) ?? null
    const old = known.get(value)
    const isSame = before === undefined || (isTierSame && isSameRule(old?.rule ?? null, rule))
    const stamps = isSame ? old?.stamps : stampsOf({ before, old, after, rule, change })
    const live = liveStamps(stamps, after.limits, change)
    if (rule === null && live === undefined) return []
    return [{ value, rule, ...(live !== undefined && { stamps: live }) }]
  })
  return stamped.length === 0 ? undefined : stamped
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

function stampsOf({ before, old, after, rule, change }: Move) {
  const stamps: Record<string, VariantStamp> = {}
  for (const limit of after.limits) {
    const limitBefore = before.limits.find(({ id }) => id === limit.id)
    if (limitBefore === undefined || limit.candidateOf !== null) continue
    const numbersBefore = numbersOf(old?.rule ?? null, before.tiers ?? {}, limit.name)
    const had = stampedVariant(variantOf(limitBefore, numbersBefore), old?.stamps?.[limit.id])
    const has = stampLimit(
      had,
      specOf(limit, numbersOf(rule, after.tiers ?? {}, limit.name)),
      change,
    )
    if (has.version !== had.version || old?.stamps?.[limit.id] !== undefined) {
      const { version, previous, changedAtUs, idle } = has
      stamps[limit.id] = { version, previous, changedAtUs, idle }
    }
  }
  return stamps
}

function specOf(limit: RegionLimit, numbers: Numbers | null) {
  const {
    version: _v,
    previous: _p,
    changedAtUs: _c,
    idle: _i,
    ...spec
  } = variantOf(limit, numbers)
  return spec
}

/** Those that a counter may still need: it is gone once nobody touched it for as long as it takes to fill. */
function liveStamps(
  stamps: Readonly<Record<string, VariantStamp>> | undefined,
  limits: readonly RegionLimit[],
  { nowUs, boot }: LimitChange,
): Readonly<Record<string, VariantStamp>> | undefined {
  const live = Object.entries(stamps ?? {}).flatMap(([id, stamp]) => {
    const limit = limits.find((one) => one.id === Number(id))
    if (limit === undefined) return []
    const keptMs = Math.max(keepMs(limit, limit), keepMs(limit, stamp.previous ?? limit))
    if (nowUs - stamp.changedAtUs >= keptMs * 1_000) return []
    // As of limits: a boot since the change ends what that allowed to unstored buckets.
    const isBooted = boot.startUs >= stamp.changedAtUs
    return [[id, isBooted ? { ...stamp, idle: { tokens: 0, atUs: 0 } } : stamp] as const]
  })
  return live.length === 0 ? undefined : Object.fromEntries(live)
}

function keepMs(
  limit: RegionLimit,
  numbers: { readonly capacity: number; readonly burst: number },
) {
  const { capacity, burst } = numbers
  const circumstances = {
    limit: { ...limit, capacity, burst },
    share: null,
    boot: { startUs: 0, recovering: false },
    nowUs: 0,
  }
  return tokenBucket.keepMs(tokenBucket.settle(null, circumstances))
}
