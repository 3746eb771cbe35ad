import { AssertionError } from '../core/assert.ts'
import type { Logger } from './logger.ts'

/** Counts kept by a loop for its metrics. */
export interface LoopStats {
  runs: number
  failures: number
  lastDurationMs: number
}

export interface Loop {
  readonly name: string
  readonly stats: Readonly<LoopStats>
  /** Runs the next step now, or right after the one under way. Calls made meanwhile fold into one. */
  wake(): void
  /** Ends the loop and resolves once the step under way has finished. */
  stop(): Promise<void>
}

export interface EveryOptions {
  readonly name: string
  readonly intervalMs: number
  /** Part of the interval added at random, 0..1, so that regions started together drift apart. */
  readonly jitter?: number
  /** A step still running after this is aborted through its signal. */
  readonly timeoutMs: number
  readonly log: Logger
  /** Called when a step broke an assertion: our own bug, on which the process must stop. */
  readonly onBug: (err: Error) => void
}

/**
 * Runs `stepOnce` again and again and never two at a time.
 *
 * An operational failure is logged and the loop goes on; a broken assertion ends the loop and is handed to
 * `onBug`. The wait is measured from the end of a step, so a slow step cannot pile up others.
 */
export function every(
  options: EveryOptions,
  stepOnce: (signal: AbortSignal) => Promise<void>,
): Loop {
  const stats: LoopStats = { runs: 0, failures: 0, lastDurationMs: 0 }
  const stopping = new AbortController()
  let timer: NodeJS.Timeout | undefined
  let running: Promise<void> | undefined
  let isWoken = false

  const schedule = (): void => {
    if (stopping.signal.aborted) return
    const jitterMs = options.intervalMs * (options.jitter ?? 0.1) * Math.random()
    timer = setTimeout(start, isWoken ? 0 : options.intervalMs + jitterMs)
  }
  const start = (): void => {
    timer = undefined
    isWoken = false
    running = runOnce(options, stats, stopping.signal, stepOnce).then((isBug) => {
      running = undefined
      if (!isBug) schedule()
    })
  }
  schedule()
  return {
    name: options.name,
    stats,
    wake() {
      isWoken = true
      if (timer === undefined) return
      clearTimeout(timer)
      schedule()
    },
    async stop() {
      stopping.abort()
      if (timer !== undefined) clearTimeout(timer)
      await running
    },
  }
}

async function runOnce(
  options: EveryOptions,
  stats: LoopStats,
  stopping: AbortSignal,
  stepOnce: (signal: AbortSignal) => Promise<void>,
): Promise<boolean> {
  const startedMs = performance.now()
  stats.runs++
  try {
    await stepOnce(AbortSignal.any([stopping, AbortSignal.timeout(options.timeoutMs)]))
    return false
  } catch (err) {
    if (stopping.aborted) return false
    stats.failures++
    if (err instanceof AssertionError) {
      options.log.error({ err, loop: options.name }, 'loop broke an assertion')
      options.onBug(err)
      return true
    }
    options.log.warn({ err, loop: options.name }, 'loop step failed')
    return false
  } finally {
    stats.lastDurationMs = performance.now() - startedMs
  }
}
