/**
 * What the demo knows of one check: when it left, when its answer was here, and what the enforcer said.
 *
 * Times are milliseconds on this process's monotonic clock since the run began. The decision fell somewhere
 * between the two; nothing here pretends to know where.
 */
export interface CheckRecord {
  /** Index of the region whose enforcer was asked. */
  readonly region: number
  /** What the check was for; counts apart under a limit per client. */
  readonly client: string
  readonly sentMs: number
  readonly receivedMs: number
  /** `failed`: no usable answer, so nothing is known; it counts for nothing. */
  readonly outcome: 'admitted' | 'denied' | 'failed'
}

/** A limit as the demo set it, for the reference limiters. */
export type ReferenceRule =
  | {
      readonly algorithm: 'token_bucket'
      readonly capacity: number
      readonly windowMs: number
      readonly burst: number
    }
  | { readonly algorithm: 'fixed_window'; readonly capacity: number; readonly windowMs: number }

/** A rule and which of its counters a check belongs to. */
export interface ReferenceLimit {
  readonly name: string
  readonly rule: ReferenceRule
  readonly counterOf: (check: CheckRecord) => string
}
