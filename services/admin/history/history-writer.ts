import { randomUUID } from 'node:crypto'
import type { Db } from '../../../shared/postgres/plane.ts'
import {
  forgetHistory,
  holdHistory,
  writeHours,
  writeMinutes,
} from '../../../shared/postgres/usage-history.ts'
import { MINUTE_MS } from './series-book.ts'
import type { UsageHistory } from './usage-history.ts'

/** How often what was counted is written: a crash of all admins at once loses no more than regions tell again. */
export const HISTORY_INTERVAL_MS = 10_000

/** Three writes may fail or be late before another admin takes over. */
const LEASE_MS = 3 * HISTORY_INTERVAL_MS

/** What an admin that does not write keeps, to have it where the other goes: twice what a lapse takes to notice. */
const SPARE_MS = 5 * MINUTE_MS

/** Minutes for two days, hours for ninety: what an operator looks back on after a night, and after a quarter. */
export const MINUTES_STORED_MS = 2 * 86_400_000
export const HOURS_STORED_MS = 90 * 86_400_000

const FORGET_INTERVAL_MS = 60_000
const FORGOTTEN_MAX = 5_000

/** Hours are summed up as often as this; a whole hour is summed once more after its end. */
const SUM_INTERVAL_MS = MINUTE_MS

/**
 * Writes the minutes and hours of the usage history to Postgres, from whichever admin holds the lease.
 *
 * The lease spares work and nothing else: every write is idempotent. What cannot be written waits, within a bound.
 */
export class HistoryWriter {
  readonly #db: Db
  readonly #history: UsageHistory
  readonly #wallMs: () => number
  readonly #holder = randomUUID()
  /** Hours may have ended while no admin ran: the first sum looks as far back as minutes that were told again. */
  #summedMs = Number.NEGATIVE_INFINITY
  #forgotMs = Number.NEGATIVE_INFINITY

  constructor(options: {
    readonly db: Db
    readonly history: UsageHistory
    readonly wallMs: () => number
  }) {
    this.#db = options.db
    this.#history = options.history
    this.#wallMs = options.wallMs
  }

  async writeOnce(): Promise<void> {
    const nowMs = this.#wallMs()
    const { pending } = this.#history
    if (!(await holdHistory(this.#db, this.#holder, LEASE_MS))) {
      pending.forget(nowMs - SPARE_MS)
      return
    }
    const buckets = pending.take()
    try {
      await writeMinutes(this.#db, buckets)
    } catch (err) {
      pending.putBack(buckets)
      throw err
    }
    await this.#sum(nowMs)
    await this.#forget(nowMs)
  }

  async #sum(nowMs: number): Promise<void> {
    if (nowMs - this.#summedMs < SUM_INTERVAL_MS) return
    await writeHours(
      this.#db,
      Math.max(this.#summedMs, nowMs - MINUTES_STORED_MS) - SPARE_MS,
      nowMs,
    )
    this.#summedMs = nowMs
  }

  async #forget(nowMs: number): Promise<void> {
    if (nowMs - this.#forgotMs < FORGET_INTERVAL_MS) return
    const most = FORGOTTEN_MAX
    const minutes = { resolution: 'minute', beforeMs: nowMs - MINUTES_STORED_MS, most } as const
    const hours = { resolution: 'hour', beforeMs: nowMs - HOURS_STORED_MS, most } as const
    const isMore = [await forgetHistory(this.#db, minutes), await forgetHistory(this.#db, hours)]
    if (!isMore.includes(true)) this.#forgotMs = nowMs
  }
}
