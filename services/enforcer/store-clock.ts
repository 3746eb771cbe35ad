import type { StoreClockReader } from '../../shared/core/ports.ts'
import type { Logger } from '../../shared/runtime/logger.ts'
import { gauge, type Registry } from '../../shared/runtime/metrics.ts'

/**
 * From here on the clock of Redis and that of this host are not taken for the same. Both run by NTP, and are
 * milliseconds apart; one that is not shows seconds, and windows of the calendar begin by it.
 */
export const CLOCK_OFF_MS_MAX = 2_000

const SECOND_MS = 1_000

const REFUSED =
  'Redis refuses TIME to this user, so no check can be decided; allow it (ACL SETUSER … +time)'

/**
 * Tells operators of a Redis whose clock cannot decide: one that does not let enforcers ask for its time, by which
 * every check is decided, and one that is far from this host's.
 */
export class StoreClockWatch {
  readonly #reader: StoreClockReader | null
  readonly #log: Logger
  #aheadMs: number | null = 0

  constructor(reader: StoreClockReader | null, log: Logger) {
    this.#reader = reader
    this.#log = log
  }

  /** False where Redis does not say what time it is. */
  get isAllowed(): boolean {
    return this.#aheadMs !== null
  }

  /** As `StoreClockReader.readAheadMs`; 0 where that is not known. */
  get aheadMs(): number {
    return this.#aheadMs ?? 0
  }

  /** What is wrong with the clock, in words; null where nothing is, and before the first reading. */
  get trouble(): string | null {
    const aheadMs = this.#aheadMs
    if (aheadMs === null) return REFUSED
    if (Math.abs(aheadMs) <= CLOCK_OFF_MS_MAX) return null
    const apart = `at least ${Math.floor(Math.abs(aheadMs) / SECOND_MS)} s`
    const way = aheadMs > 0 ? 'ahead of' : 'behind'
    return `the clock of Redis is ${apart} ${way} this host's; run NTP or PTP on both`
  }

  async readOnce(): Promise<void> {
    if (this.#reader === null) return
    const was = { isAllowed: this.isAllowed, isRight: this.trouble === null }
    this.#aheadMs = await this.#reader.readAheadMs()
    const isRight = this.trouble === null
    if (was.isRight === isRight && was.isAllowed === this.isAllowed) return
    if (!this.isAllowed) this.#log.error(REFUSED)
    else if (isRight) this.#log.info('the clock of redis is right again')
    else this.#log.warn({ aheadMs: Math.round(this.aheadMs) }, 'the clock of redis is far off')
  }
}

/** Declares what is known of the clock of Redis; read when scraped. */
export function observeStoreClock(
  registry: Registry,
  watch: Pick<StoreClockWatch, 'aheadMs' | 'isAllowed'>,
): void {
  gauge(registry, {
    name: 'quotaplane_store_clock_ahead_seconds',
    help: "How far the clock of Redis is ahead of this host's, at least.",
    collect() {
      this.set(watch.aheadMs / SECOND_MS)
    },
  })
  gauge(registry, {
    name: 'quotaplane_store_clock_refused',
    help: '1 where Redis does not let this enforcer ask for its time, so that no check can be decided.',
    collect() {
      this.set(watch.isAllowed ? 0 : 1)
    },
  })
}
