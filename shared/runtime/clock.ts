/** The two clocks of a process. Loan deadlines use only `monotonicMs`; wall time is for people and labels. */
export interface Clock {
  /** Milliseconds from an arbitrary instant; never goes back while the process lives. Not whole. */
  monotonicMs(): number
  /** Milliseconds since the Unix epoch. */
  wallMs(): number
}

export const systemClock: Clock = {
  monotonicMs: () => performance.now(),
  wallMs: () => Date.now(),
}
