import type { CheckRecord, ReferenceLimit, ReferenceRule } from './check-record.ts'
import { windowOf } from './reference-window.ts'

/** One counter of a limiter that sees the traffic of all regions at once. */
type Counter =
  | { readonly kind: 'bucket'; tokens: number; atMs: number }
  | { readonly kind: 'window'; index: number; count: number }

/**
 * Says of each check, in the order they left, whether a single limiter for the whole world would have admitted it.
 *
 * This is the yardstick of utilisation: no system of regions can admit more of this traffic without passing
 * a limit, except by luck with the order inside a round trip.
 */
export function clairvoyant(
  checks: readonly CheckRecord[],
  limits: readonly ReferenceLimit[],
  originWallMs: number,
): ReadonlyMap<CheckRecord, boolean> {
  const counters = limits.map(() => new Map<string, Counter>())
  const verdicts = new Map<CheckRecord, boolean>()
  for (const check of [...checks].sort((a, b) => a.sentMs - b.sentMs)) {
    const touched = limits.map((limit, i) => {
      const name = limit.counterOf(check)
      const known = counters[i]?.get(name)
      const counter = settle(known ?? newCounter(limit.rule), limit.rule, check, originWallMs)
      counters[i]?.set(name, counter)
      return { counter, rule: limit.rule }
    })
    const isAdmitted = touched.every(({ counter, rule }) => hasRoom(counter, rule))
    if (isAdmitted) for (const { counter } of touched) spend(counter)
    verdicts.set(check, isAdmitted)
  }
  return verdicts
}

function newCounter(rule: ReferenceRule): Counter {
  return rule.algorithm === 'token_bucket'
    ? { kind: 'bucket', tokens: rule.burst, atMs: 0 }
    : { kind: 'window', index: 0, count: 0 }
}

function settle(
  counter: Counter,
  rule: ReferenceRule,
  check: CheckRecord,
  originWallMs: number,
): Counter {
  if (counter.kind === 'bucket') {
    const elapsedMs = Math.max(0, check.sentMs - counter.atMs)
    const burst = rule.algorithm === 'token_bucket' ? rule.burst : rule.capacity
    counter.tokens = Math.min(burst, counter.tokens + (elapsedMs * rule.capacity) / rule.windowMs)
    counter.atMs = check.sentMs
    return counter
  }
  const index = windowOf(originWallMs + check.sentMs, rule.windowMs)
  if (index !== counter.index) {
    counter.index = index
    counter.count = 0
  }
  return counter
}

function hasRoom(counter: Counter, rule: ReferenceRule): boolean {
  return counter.kind === 'bucket' ? counter.tokens >= 1 : counter.count < rule.capacity
}

function spend(counter: Counter): void {
  if (counter.kind === 'bucket') counter.tokens -= 1
  else counter.count += 1
}
