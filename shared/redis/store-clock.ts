/** The daemon's clock: ms from an arbitrary instant, never back. */
export interface MonotonicClock {
  monotonicMs(): number
}

/**
 * Redis TIME minus the daemon's clock, ms, from a reply that was received just now.
 *
 * Never more than the true difference, since the reply took time to arrive; so a deadline of the daemon's clock
 * that is placed on Redis TIME with it comes too early, never too late. Of several, the largest is the best.
 */
export function offsetAt(atUs: number, clock: MonotonicClock): number {
  return atUs / 1_000 - clock.monotonicMs()
}
