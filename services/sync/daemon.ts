/**
 * The daemon of one region: leads it through sessions over its Redis, one after the other, for as long as the
 * process lives.
 *
 * connecting  Redis is not reachable; attempts go on with a growing, jittered wait.
 * standby     Another daemon holds the lease; this one waits and takes over when it lapses.
 * starting    The lease is held; what is known of the past decides how the session begins.
 * leading     Events are handled and records published.
 */
import { AssertionError } from '../../shared/core/assert.ts'
import type { RegionStore } from '../../shared/core/ports.ts'
import { isQuotaError } from '../../shared/errors.ts'
import { createFailureLog, type FailureLog } from '../../shared/runtime/failure-log.ts'
import type { Logger } from '../../shared/runtime/logger.ts'
import { type BootDeps, startSession } from './boot.ts'
import type { Session } from './session.ts'
import { pause, type Wakeup } from './wakeup.ts'
import { within } from './within.ts'

/** First wait after a failed session: short, since a lapsing lease may be saved by the next one. */
const RETRY_MIN_MS = 100

/** Longest wait between attempts: a Redis that is back is found within it. */
const RETRY_MAX_MS = 2_000

/** A session that lasted this long was a success: the next failure starts with the shortest wait. */
const SESSION_GOOD_MS = 5_000

/** How often a waiting daemon tries to take the lease. */
const STANDBY_INTERVAL_MS = 500

export type Phase = 'connecting' | 'standby' | 'starting' | 'leading' | 'stopped'

export interface DaemonOptions extends Omit<BootDeps, 'signal'> {
  /** Ends the wait between two steps of a session when something arrives. */
  readonly wakeup: Wakeup
  /** A fresh connection to the region's Redis, which does not reconnect by itself. */
  readonly connect: () => Promise<RegionStore>
  readonly log: Logger
  /** Called when an assertion broke: our own bug, on which the process must stop. */
  readonly onBug: (err: Error) => void
}

export class Daemon {
  readonly #options: DaemonOptions
  readonly #stopping = new AbortController()
  readonly #failures: FailureLog
  #phase: Phase = 'connecting'
  #ledSinceMs = 0
  #retryMs = RETRY_MIN_MS
  #running: Promise<void> | undefined

  constructor(options: DaemonOptions) {
    this.#options = options
    this.#failures = createFailureLog({
      log: options.log,
      fields: {},
      failedMessage: 'session over Redis failed',
      succeededMessage: 'session over Redis begun again',
    })
  }

  get phase(): Phase {
    return this.#phase
  }

  /** True while this daemon leads and the region's enforcers are served under policies that may be used. */
  get isServing(): boolean {
    return this.#phase === 'leading' && this.#options.memory.isServing
  }

  start(): void {
    this.#running ??= this.#run()
  }

  /**
   * Finishes the step under way, publishes a last record and gives the lease up. Resolves after `timeoutMs` at
   * the latest, also when Redis hangs; the lease then lapses by itself.
   */
  async stop(timeoutMs: number): Promise<void> {
    this.#stopping.abort(new Error('the daemon is stopping'))
    this.#options.wakeup.wake()
    await within(timeoutMs, this.#running)
  }

  async #run(): Promise<void> {
    const { clock } = this.#options
    while (!this.#stopping.signal.aborted) {
      const startedMs = clock.monotonicMs()
      await this.#lead().catch((err: unknown) => this.#noteFailure(err))
      this.#setPhase('connecting')
      const isGood = clock.monotonicMs() - startedMs >= SESSION_GOOD_MS
      this.#retryMs = isGood ? RETRY_MIN_MS : Math.min(RETRY_MAX_MS, 2 * this.#retryMs)
      await pause(this.#retryMs * (0.5 + Math.random()), this.#stopping.signal)
    }
    this.#setPhase('stopped')
  }

  #noteFailure(err: unknown): void {
    if (err instanceof AssertionError) {
      this.#stopping.abort(err)
      this.#options.log.error({ err }, 'the daemon broke an assertion')
      this.#options.onBug(err)
    }
    if (this.#stopping.signal.aborted) return
    const code = isQuotaError(err) ? err.code : 'unexpected'
    this.#options.metrics.sessionFailures.inc({ code })
    this.#failures.failed(err)
  }

  /** One connection to Redis, from connecting to its end. Rejects unless the daemon is to stop. */
  async #lead(): Promise<void> {
    const { connect, log, metrics } = this.#options
    const store = await connect()
    try {
      await this.#takeLease(store)
      this.#setPhase('starting')
      const deps = { ...this.#options, signal: this.#stopping.signal }
      const { session, continuity } = await startSession(deps, store, this.#ledSinceMs)
      metrics.sessions.inc({ continuity })
      metrics.inDoubt.set(0)
      const { incarnation, fence } = this.#options.memory.ledger
      log.info({ continuity, incarnation, fence }, 'leading the region')
      this.#setPhase('leading')
      this.#options.onStockWanted()
      this.#failures.succeeded()
      await this.#runSession(session)
      await session.send()
      await this.#options.leadership.release(store)
    } catch (err) {
      if (this.#phase !== 'connecting' && this.#phase !== 'standby') metrics.inDoubt.set(1)
      throw err
    } finally {
      await store.close()
    }
  }

  async #takeLease(store: RegionStore): Promise<void> {
    const { leadership, memory, clock, log } = this.#options
    for (;;) {
      const claim = await leadership.claim(store)
      if (claim === 'continued') return
      memory.forgetLedger()
      if (claim === 'taken') {
        this.#ledSinceMs = clock.monotonicMs()
        return
      }
      if (this.#phase !== 'standby') {
        log.info('another daemon leads this region; waiting to take over')
        this.#setPhase('standby')
      }
      await pause(STANDBY_INTERVAL_MS, this.#stopping.signal)
      this.#stopping.signal.throwIfAborted()
    }
  }

  async #runSession(session: Session): Promise<void> {
    while (!this.#stopping.signal.aborted) {
      const idleMs = await session.stepOnce()
      if (idleMs > 0) await this.#options.wakeup.wait(idleMs)
    }
  }

  #setPhase(phase: Phase): void {
    this.#phase = phase
    this.#options.metrics.leading.set(phase === 'starting' || phase === 'leading' ? 1 : 0)
  }
}
