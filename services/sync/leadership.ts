/**
 * The daemon's lease on its region.
 *
 * The lease lives in the region's Redis for LEASE_STORE_MS and in this process for LEASE_MS, counted from the
 * moment the claim was sent. So this process always stops first, however long the reply took and whatever two
 * clocks within the assumed drift do. Without the lease the daemon has no effect at all, on NATS neither.
 */
import { DRIFT } from '../../shared/core/ledger/constants.ts'
import type { RegionStore } from '../../shared/core/ports.ts'
import type { Clock } from '../../shared/runtime/clock.ts'

/**
 * How long one claim lasts by this process's clock.
 *
 * Longer survives longer stalls and restarts of Redis with the ledger in memory; shorter lets a second daemon
 * take over sooner. It stays under LOAN_TTL_MS, so that a takeover costs no loan. Not a setting: the daemons
 * of a region must agree on it.
 */
export const LEASE_MS = 5_000

/** The same lease in Redis: longer by what two clocks may drift apart. */
export const LEASE_STORE_MS = Math.ceil((LEASE_MS * (1 + DRIFT)) / (1 - DRIFT))

/** A claim is renewed this often: three may fail in a row before the lease lapses. */
export const RENEW_INTERVAL_MS = 1_000

/** `continued`: no other daemon can have led the region since this process last did. */
export type Claim = 'refused' | 'taken' | 'continued'

/** What the lease needs of the region's Redis. */
export type LeaseStore = Pick<RegionStore, 'claimLeadership' | 'releaseLeadership'>

export class Leadership {
  readonly #holder: string
  readonly #clock: Clock
  #heldUntilMs = Number.NEGATIVE_INFINITY

  /** `holder` must be unique to this process. */
  constructor(holder: string, clock: Clock) {
    this.#holder = holder
    this.#clock = clock
  }

  isHeld(): boolean {
    return this.#clock.monotonicMs() < this.#heldUntilMs
  }

  /** Takes or renews the lease. Rejects as the store does; the lease held so far then runs on to its end. */
  async claim(store: LeaseStore): Promise<Claim> {
    const sentMs = this.#clock.monotonicMs()
    const isGranted = await store.claimLeadership(this.#holder, LEASE_STORE_MS)
    if (!isGranted) {
      this.#heldUntilMs = Number.NEGATIVE_INFINITY
      return 'refused'
    }
    const isContinued = this.isHeld()
    this.#heldUntilMs = sentMs + LEASE_MS
    return isContinued ? 'continued' : 'taken'
  }

  /** Gives the lease up; this process stops first, so a lost reply leaves only a wait. */
  async release(store: LeaseStore): Promise<void> {
    if (!this.isHeld()) return
    this.#heldUntilMs = Number.NEGATIVE_INFINITY
    await store.releaseLeadership(this.#holder)
  }
}
