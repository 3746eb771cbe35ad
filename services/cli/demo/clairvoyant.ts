import type { CheckRecord, ReferenceLimit, ReferenceRule } from './check-record.ts'
import { windowOf } from './reference-window.ts'

/** One counter of a limiter that sees the traffic of all regions at once. */
type Counter =
  | { readonly kind: 'bucket'; tokens: number; atMs: number }
  | { readonly kind: 'window'; index: number; count: number }

/** When the one limiter is taken to have decided a check: somewhere between the two, in truth. */
export type DecidedAt = 'sentMs' | 'receivedMs'

/**
 * Says of each check whether a single limiter for the whole world would have admitted it.
 *
 * This is the yardstick of utilisation: no system of regions can admit more of this traffic without passing
 * a limit, except by luck with the instants inside a round trip.
 */
export function clairvoyant(
  checks: readonly CheckRecord[],
  limits: readonly ReferenceLimit[],
  options: { readonly decidedAt: DecidedAt; readonly originWallMs: number },
): ReadonlyMap<CheckRecord, boolean> {
  const { decidedAt, originWallMs } = options
  const counters = limits.map(() => new Map<string, Counter>())
  const verdicts = new Map<CheckRecord, boolean>()
  for (const check of [...checks].sort((a, b) => a[decidedAt] - b[decidedAt])) {
    const touched = limits.map((limit, i) => {
      const name = limit.counterOf(check)
      const known = counters[i]?.get(name)
      const counter = settle(
        known ?? newCounter(limit.rule),
        limit.rule,
        check[decidedAt],
        originWallMs,
      )
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
  atMs: number,
  originWallMs: number,
): Counter {
  if (counter.kind === 'bucket') {
    const elapsedMs = Math.max(0, atMs - counter.atMs)
    const burst = rule.algorithm === 'token_bucket' ? rule.burst : rule.capacity
    counter.tokens = Math.min(burst, counter.tokens + (elapsedMs * rule.capacity) / rule.windowMs)
    counter.atMs = atMs
    return counter
  }
  const index = windowOf(originWallMs + atMs, rule.windowMs)
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
