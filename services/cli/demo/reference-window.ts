import type { CheckRecord } from './check-record.ts'

/** How far the wall clocks of the regions and ours may differ (docs/consistency.md); such checks prove nothing. */
const CLOCK_SKEW_MS = 50

/**
 * Tokens that were certainly admitted beyond one global fixed window, 0 when none were.
 *
 * Windows are labelled by wall clock. A check belongs to a window for certain when it left and was answered
 * inside it, away from the edges by the permitted skew; checks across an edge are given the benefit of doubt.
 */
export function windowExcess(
  admissions: readonly CheckRecord[],
  rule: { readonly capacity: number; readonly windowMs: number },
  originWallMs: number,
): number {
  const counts = new Map<number, number>()
  for (const check of admissions) {
    const first = windowOf(originWallMs + check.sentMs - CLOCK_SKEW_MS, rule.windowMs)
    const last = windowOf(originWallMs + check.receivedMs + CLOCK_SKEW_MS, rule.windowMs)
    if (first === last) counts.set(first, (counts.get(first) ?? 0) + 1)
  }
  let worst = 0
  for (const count of counts.values()) worst = Math.max(worst, count - rule.capacity)
  return worst
}

/** Index of the window that holds an instant. */
export function windowOf(wallMs: number, windowMs: number): number {
  return Math.floor(wallMs / windowMs)
}
