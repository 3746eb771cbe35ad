import type { RegionRecord } from '../../shared/core/ledger/types.ts'
import { isQuotaError } from '../../shared/errors.ts'
import { readTokensMark } from '../../shared/postgres/check-tokens.ts'
import { forgetKeys } from '../../shared/postgres/idempotency.ts'
import { migrateToLatest } from '../../shared/postgres/migrator.ts'
import { type Db, readStamp } from '../../shared/postgres/plane.ts'
import { forgetWindows } from '../../shared/postgres/stock.ts'
import type { Logger } from '../../shared/runtime/logger.ts'
import { type Adoption, recordAdoptions } from './adoptions.ts'
import { settleHeardDepartures } from './departures.ts'
import { endExpiredActions } from './emergency-ends.ts'
import type { LiveView } from './live-view.ts'
import type { PlaneCache } from './plane-cache.ts'
import { Rebase } from './rebase.ts'
import { resumeExpired } from './region-drain.ts'
import { RegionMoves } from './region-moves.ts'

/** How long a long window is kept after its end. */
const WINDOW_KEEP_MS = 86_400_000

/** How often it is looked for such windows and for idempotency keys that have expired, and how many accounts one step forgets: some milliseconds' work. */
const FORGET_INTERVAL_MS = 60_000
const FORGOTTEN_MAX = 2_000

export interface PlaneFollowerOptions {
  readonly db: Db
  readonly cache: PlaneCache
  readonly live: LiveView
  readonly migrations: string
  readonly log: Logger
  readonly wallMs: () => number
  readonly monotonicMs: () => number
  /** Tells the regions of the newest revision, and of the mark of the tokens for checks; null before it was read. */
  readonly announce: (revision: number, tokens: string | null) => void
}

/**
 * Keeps admin in step with Postgres: prepares the schema, follows the revision whoever changed it, announces
 * it, and writes down what regions adopted. Each step stands alone, so that a store that comes back is picked
 * up by the next one.
 */
export class PlaneFollower {
  readonly #options: PlaneFollowerOptions
  #isPrepared = false
  /** Null before the first attempt, whose failure is worth a line too. */
  #isDatabaseUp: boolean | null = null
  readonly #recorded = new Set<string>()
  readonly #moves: RegionMoves
  readonly #rebase: Rebase
  #tokensMark: string | null = null
  #forgotAtMs = Number.NEGATIVE_INFINITY

  constructor(options: PlaneFollowerOptions) {
    this.#options = options
    this.#moves = new RegionMoves(options)
    this.#rebase = new Rebase(options)
  }

  /** The schema is as this version needs it, so requests may touch the store. */
  isPrepared(): boolean {
    return this.#isPrepared
  }

  isDatabaseUp(): boolean {
    return this.#isDatabaseUp === true
  }

  async stepOnce(): Promise<void> {
    try {
      await this.#follow()
      this.#noteDatabase(true)
    } catch (err) {
      this.#noteDatabase(false, err)
      if (!isQuotaError(err, 'QUOTA_DATABASE_UNAVAILABLE')) throw err
    }
  }

  /** Takes in a record; true when it tells of an adoption that is not written down yet. */
  hear(record: RegionRecord): boolean {
    if (!this.#options.live.hear(record, this.#options.wallMs())) return false
    return this.#unrecorded().length > 0
  }

  async #follow(): Promise<void> {
    const { db, cache, live, wallMs } = this.#options
    if (!this.#isPrepared) {
      const applied = await migrateToLatest(db, this.#options.migrations)
      this.#isPrepared = true
      this.#options.log.info({ applied }, 'schema is ready')
    }
    await this.#refresh()
    // What was just saved need not wait for the rest of the step.
    this.#options.announce(cache.revision, this.#tokensMark)
    // Before all that may fail: a revoked token must not wait for it.
    this.#tokensMark = await readTokensMark(db)
    const adoptions = this.#unrecorded()
    if (adoptions.length > 0) {
      await recordAdoptions(db, adoptions, ADOPTION_CONTEXT)
      for (const adoption of adoptions) this.#recorded.add(keyOf(adoption))
      this.#options.log.info({ adoptions }, 'epochs adopted')
      await this.#refresh()
    }
    if (await endExpiredActions(db, wallMs())) await this.#refresh()
    if (await resumeExpired(db, wallMs())) await this.#refresh()
    if (await this.#moves.stepOnce()) await this.#refresh()
    if (await this.#rebase.stepOnce(cache.members)) await this.#refresh()
    await settleHeardDepartures({ db, live, members: cache.members })
    live.prune(wallMs())
    await this.#forget(wallMs())
    this.#options.announce(cache.revision, this.#tokensMark)
  }

  async #refresh(): Promise<void> {
    const { db, cache, live, wallMs } = this.#options
    const stamp = await readStamp(db)
    if (cache.isAt(stamp)) return
    // A store that went back was restored from a copy: what is in memory came from another history.
    if (stamp.revision < cache.revision || cache.isOther(stamp)) cache.forget()
    await cache.refresh(db)
    live.follow(cache, wallMs())
    const open = new Set(live.adoptions(cache.members).map(keyOf))
    for (const key of this.#recorded) if (!open.has(key)) this.#recorded.delete(key)
  }

  /** Windows that ended a day ago can be opened by nobody, whatever its clock says within reason. */
  async #forget(nowMs: number): Promise<void> {
    if (nowMs - this.#forgotAtMs < FORGET_INTERVAL_MS) return
    const { db } = this.#options
    const isMoreStock = await forgetWindows(db, nowMs - WINDOW_KEEP_MS, FORGOTTEN_MAX)
    const isMoreKeys = await forgetKeys(db)
    if (!isMoreStock && !isMoreKeys) this.#forgotAtMs = nowMs
  }

  #unrecorded(): readonly Adoption[] {
    const { live, cache } = this.#options
    return live.adoptions(cache.members).filter((adoption) => !this.#recorded.has(keyOf(adoption)))
  }

  #noteDatabase(isUp: boolean, err?: unknown): void {
    if (isUp === this.#isDatabaseUp) return
    if (isUp) this.#options.log.info('Postgres answers')
    else this.#options.log.warn({ err }, 'Postgres does not answer')
    this.#isDatabaseUp = isUp
  }
}

const ADOPTION_CONTEXT = {
  actor: 'admin',
  requestId: 'records',
  reason: 'every region said that it has adopted the epoch',
}

function keyOf(adoption: Adoption): string {
  return `${adoption.limitId}.${adoption.epoch} ${adoption.region}`
}
