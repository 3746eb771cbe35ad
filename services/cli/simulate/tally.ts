/** What two sets of policies made of the same checks. */
import type { LoggedCheck } from './checks.ts'
import type { TwinVerdict } from './twin-plane.ts'

export interface Outcome {
  checks: number
  allowedBefore: number
  allowedAfter: number
  /** Allowed by the present policies and denied by the others, and the other way round. */
  newlyDenied: number
  newlyAllowed: number
}

/**
 * Keys that are told apart. With more, those that the change touches least so far are forgotten, so that a log of any
 * number of callers takes the same memory; what is shown may then count too little of a key.
 */
const KEYS_MAX = 50_000

export class Tally {
  readonly total = noOutcome()
  readonly regions = new Map<string, Outcome>()
  readonly keys = new Map<string, Outcome>()
  /** Denials by `policy/limit`: by the present policies, and by the others. */
  readonly limits = new Map<string, { before: number; after: number }>()
  unmatched = 0
  firstMs: number | null = null
  lastMs: number | null = null
  hasForgotten = false

  add(check: LoggedCheck, before: TwinVerdict | null, after: TwinVerdict): void {
    this.firstMs ??= check.timeMs
    this.lastMs = check.timeMs
    if (!after.isMatched) this.unmatched++
    const told = { before: before?.allowed ?? true, after: after.allowed }
    count(this.total, told)
    count(outcomeIn(this.regions, check.region), told)
    count(outcomeIn(this.keys, keyOf(check)), told)
    if (this.keys.size > KEYS_MAX) this.#forget()
    for (const limit of before?.deniedBy ?? []) this.#denial(limit).before++
    for (const limit of after.deniedBy) this.#denial(limit).after++
  }

  /** Keys whose checks the change touches most, and after them those that are denied most. */
  topKeys(count: number): readonly (readonly [string, Outcome])[] {
    return [...this.keys]
      .filter(
        ([, outcome]) => outcome.checks > Math.min(outcome.allowedBefore, outcome.allowedAfter),
      )
      .sort(([, one], [, other]) => weightOf(other) - weightOf(one))
      .slice(0, count)
  }

  #denial(limit: string): { before: number; after: number } {
    const known = this.limits.get(limit)
    if (known !== undefined) return known
    const denials = { before: 0, after: 0 }
    this.limits.set(limit, denials)
    return denials
  }

  #forget(): void {
    this.hasForgotten = true
    const least = [...this.keys].sort(([, one], [, other]) => weightOf(one) - weightOf(other))
    for (const [key] of least.slice(0, KEYS_MAX / 2)) this.keys.delete(key)
  }
}

function weightOf({ checks, allowedAfter, newlyDenied, newlyAllowed }: Outcome): number {
  return 1e6 * (newlyDenied + newlyAllowed) + (checks - allowedAfter)
}

function outcomeIn(outcomes: Map<string, Outcome>, key: string): Outcome {
  const known = outcomes.get(key)
  if (known !== undefined) return known
  const outcome = noOutcome()
  outcomes.set(key, outcome)
  return outcome
}

function noOutcome(): Outcome {
  return { checks: 0, allowedBefore: 0, allowedAfter: 0, newlyDenied: 0, newlyAllowed: 0 }
}

function count(
  outcome: Outcome,
  { before, after }: { readonly before: boolean; readonly after: boolean },
): void {
  outcome.checks++
  if (before) outcome.allowedBefore++
  if (after) outcome.allowedAfter++
  if (before && !after) outcome.newlyDenied++
  if (!before && after) outcome.newlyAllowed++
}

function keyOf({ descriptors }: LoggedCheck): string {
  return descriptors
    .map(({ entries }) => entries.map(({ key, value }) => `${key}=${value}`).join(','))
    .join(' + ')
}
