/**
 * What an operator does to a policy in an emergency, for a time.
 *
 * An action never edits the policy: each region works out what the policy comes to under the actions that are in force
 * by its own clock, so one that is cut off ends them too. All that follows from that is what follows from a changed
 * limit, in the order that the ledger and the store keep: a lowered limit clamps, and no share is ever made larger than
 * the limit that is in force here.
 */
import type { NumbersByLimit, Override, OverrideRule } from './overrides.ts'
import type { Lending, Limit, Policy } from './policy.ts'
import { TOKENS_MAX } from './units.ts'

export const EMERGENCY_KINDS = ['block', 'allow', 'multiply', 'fix', 'freeze', 'pin'] as const
export type EmergencyKind = (typeof EMERGENCY_KINDS)[number]

/**
 * `block`, `allow`: deny one value of the policy's `overridesBy` entry everything, or nothing. `multiply`: a limit with
 * all that tenants have of it, times `factor`. `fix`: a limit's own numbers; tenants with numbers of theirs keep them.
 * `freeze`: loans stay as they are. `pin`: every region has its base and no more. Of the last two, `limit` null means
 * every limit.
 */
export type EmergencyEffect =
  | { readonly kind: 'block' | 'allow'; readonly value: string }
  | { readonly kind: 'multiply'; readonly limit: string; readonly factor: number }
  | {
      readonly kind: 'fix'
      readonly limit: string
      readonly capacity: number
      readonly burst: number
    }
  | { readonly kind: 'freeze' | 'pin'; readonly limit: string | null }

/** `expiresAtMs` by the clock of each region's Redis. */
export interface EmergencyAction {
  readonly id: number
  readonly effect: EmergencyEffect
  readonly expiresAtMs: number
}

/** The policy as the actions make it that are in force at `atMs`; the policy itself where none is. */
export function underEmergency<P extends Policy>(policy: P, atMs: number): P {
  if (policy.emergency === undefined) return policy
  const effects = policy.emergency
    .filter(({ expiresAtMs }) => atMs < expiresAtMs)
    .map(({ effect }) => effect)
  if (effects.length === 0) return policy
  const { tiers, overrides } = policy
  const scaled = { tiers: scaledTiers(tiers, effects), overrides: overridden(overrides, effects) }
  return {
    ...policy,
    limits: policy.limits.map((limit) => limitUnder(limit, effects)),
    ...(scaled.tiers !== undefined && { tiers: scaled.tiers }),
    ...(scaled.overrides !== undefined && { overrides: scaled.overrides }),
  }
}

/** When the next action of these policies ends after `atMs`; infinity without any. */
export function nextEmergencyEndMs(policies: Iterable<Policy>, atMs: number): number {
  let next = Number.POSITIVE_INFINITY
  for (const { emergency = [] } of policies) {
    for (const { expiresAtMs } of emergency) {
      if (expiresAtMs > atMs) next = Math.min(next, expiresAtMs)
    }
  }
  return next
}

/** Tokens times a factor, rounded down; what was above nothing stays so, since nothing is said by `fix`. */
export function multiplied(tokens: number, factor: number): number {
  if (tokens === 0) return 0
  return Math.min(TOKENS_MAX, Math.max(1, Math.floor(tokens * factor)))
}

function limitUnder(limit: Limit, effects: readonly EmergencyEffect[]): Limit {
  // A candidate is what all tenants would have.
  if (limit.candidateOf !== null) return limit
  const lending = lendingUnder(limit, effects)
  const numbers = numbersUnder(limit, effects)
  return { ...limit, ...numbers, ...(lending !== null && { lending }) }
}

function numbersUnder(
  { name, capacity, burst }: Limit,
  effects: readonly EmergencyEffect[],
): Pick<Limit, 'capacity' | 'burst'> {
  let numbers = { capacity, burst }
  for (const effect of effects) {
    if (effect.kind === 'fix' && effect.limit === name) {
      numbers = { capacity: effect.capacity, burst: effect.burst }
    }
  }
  const factor = factorOf(name, effects)
  if (factor === 1) return numbers
  return {
    capacity: multiplied(numbers.capacity, factor),
    burst: multiplied(numbers.burst, factor),
  }
}

function factorOf(name: string, effects: readonly EmergencyEffect[]): number {
  return effects.reduce(
    (product, effect) =>
      effect.kind === 'multiply' && effect.limit === name ? product * effect.factor : product,
    1,
  )
}

/** Of both, a pin says more. */
function lendingUnder({ name }: Limit, effects: readonly EmergencyEffect[]): Lending | null {
  const kinds = effects.flatMap((effect) => {
    const isOfLending = effect.kind === 'freeze' || effect.kind === 'pin'
    return isOfLending && (effect.limit ?? name) === name ? [effect.kind] : []
  })
  if (kinds.includes('pin')) return 'none'
  return kinds.includes('freeze') ? 'frozen' : null
}

function scaledTiers(tiers: Policy['tiers'], effects: readonly EmergencyEffect[]): Policy['tiers'] {
  if (tiers === undefined) return undefined
  const scaled = Object.entries(tiers).map(([tier, numbers]) => [tier, scaledBy(numbers, effects)])
  return Object.fromEntries(scaled)
}

function scaledBy(numbers: NumbersByLimit, effects: readonly EmergencyEffect[]): NumbersByLimit {
  const scaled = Object.entries(numbers).map(([name, { capacity, burst }]) => {
    const factor = factorOf(name, effects)
    const more = burst === undefined ? {} : { burst: multiplied(burst, factor) }
    return [name, { capacity: multiplied(capacity, factor), ...more }]
  })
  return Object.fromEntries(scaled)
}

/** Tenants that are blocked or let through have that in place of what they had. */
function overridden(
  overrides: readonly Override[] = [],
  effects: readonly EmergencyEffect[],
): readonly Override[] | undefined {
  const rules = new Map<string, OverrideRule>()
  for (const effect of effects) {
    if (effect.kind === 'block') rules.set(effect.value, { kind: 'deny' })
    else if (effect.kind === 'allow') rules.set(effect.value, { kind: 'unlimited' })
  }
  const kept = overrides
    .filter(({ value }) => !rules.has(value))
    .map((override) =>
      override.rule.kind === 'numbers'
        ? {
            ...override,
            rule: { ...override.rule, limits: scaledBy(override.rule.limits, effects) },
          }
        : override,
    )
  const all = [...kept, ...[...rules].map(([value, rule]) => ({ value, rule }))]
  return all.length === 0 ? undefined : all
}
