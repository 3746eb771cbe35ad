/** How much a region asks for of a counter's stock, and how often. */
import { LOW_PART } from './counter.ts'
import type { Allotment } from './pool.ts'

/**
 * An allotment is to last this long. Longer asks Postgres less often and rides out a longer absence of admin;
 * shorter leaves less with a region whose callers went away, and wastes less with a lost Redis.
 */
export const WANT_AIM_MS = 60_000

/** A region asks again for a counter of which nothing was left after this long: its capacity may be raised. */
export const EXHAUSTED_RETRY_MS = 10_000

/** Growth from one allotment to the next: a few steps lead from one token to any demand. */
const GROWTH_MAX = 8

export interface Given {
  readonly atMs: number
  readonly tokens: number
}

/** Tokens to ask for, by how long the last allotment lasted; the pool's own rule decides the first. */
export function tokensToAsk(last: Given | null, nowMs: number): number {
  if (last === null || last.tokens === 0) return 1
  const lastedMs = Math.max(1, nowMs - last.atMs)
  const factor = Math.min(GROWTH_MAX, Math.max(1 / GROWTH_MAX, WANT_AIM_MS / lastedMs))
  return Math.max(1, Math.ceil(last.tokens * factor))
}

/** What is left when more is asked for: null where there is nothing more to be had. */
export function lowMark({ from, to }: Allotment): number | null {
  return to === from ? null : Math.floor((to - from) / LOW_PART)
}
