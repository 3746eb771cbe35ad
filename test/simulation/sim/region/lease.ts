import {
  LEASE_MS,
  LEASE_STORE_MS,
  RENEW_INTERVAL_MS,
} from '../../../../services/sync/leadership.ts'
import type { Connection } from './connection.ts'
import type { Process, Task } from './process.ts'
import { claimLeadership, StoreFailure } from './store-writes.ts'

/** The daemon's lease on its region, as services/sync/leadership.ts holds it; outlives connections. */
export class Lease {
  readonly #holder: string
  readonly #process: Process
  #untilMs = Number.NEGATIVE_INFINITY

  constructor(holder: string, process: Process) {
    this.#holder = holder
    this.#process = process
  }

  /** Without the lease a daemon has no effect at all. */
  require(): void {
    if (!this.#isHeld()) throw new StoreFailure('the lease has lapsed')
  }

  *claim(connection: Connection): Task<'refused' | 'taken' | 'continued'> {
    const sentMs = this.#process.nowMs()
    const { redis } = connection
    const claim = (): boolean => claimLeadership(redis, this.#holder, LEASE_STORE_MS)
    if (!(yield* connection.call(claim))) {
      this.#untilMs = Number.NEGATIVE_INFINITY
      return 'refused'
    }
    const isContinued = this.#isHeld()
    this.#untilMs = sentMs + LEASE_MS
    return isContinued ? 'continued' : 'taken'
  }

  /** Renews until `untilMs`; throws when another daemon may have led meanwhile. */
  *keep(connection: Connection, untilMs: number): Task {
    for (;;) {
      if ((yield* this.claim(connection)) !== 'continued') throw new StoreFailure('lease lost')
      const leftMs = untilMs - this.#process.nowMs()
      if (leftMs <= 0) return
      yield* connection.sleepFor(Math.min(leftMs, RENEW_INTERVAL_MS))
    }
  }

  #isHeld(): boolean {
    return this.#process.nowMs() < this.#untilMs
  }
}
