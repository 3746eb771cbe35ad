import { AsyncResource } from 'node:async_hooks'
import { AssertionError } from '../core/assert.ts'
import { createFailureLog } from './failure-log.ts'
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
 * `onBug`. The wait is measured from the end of a step, so a slow step cannot pile up others. A step is told of
 * its time-out and of `stop` by its signal, and must heed it: `stop` waits for the step to end.
 */
export function every(
  options: EveryOptions,
  stepOnce: (signal: AbortSignal) => Promise<void>,
): Loop {
  const stats: LoopStats = { runs: 0, failures: 0, lastDurationMs: 0 }
  const log = createFailureLog({
    log: options.log,
    fields: { loop: options.name },
    failedMessage: 'loop step failed',
    succeededMessage: 'loop step succeeded again',
  })
  let isStopping = false
  let isWoken = false
  let timer: NodeJS.Timeout | undefined
  let step: AbortController | undefined
  let running: Promise<void> | undefined

  const schedule = (): void => {
    const jitterMs = options.intervalMs * (options.jitter ?? 0.1) * Math.random()
    timer = setTimeout(start, isWoken ? 0 : options.intervalMs + jitterMs)
  }
  // In the context that the loop was made in: a step is no part of what whoever woke it was doing.
  const start = AsyncResource.bind((): void => {
    timer = undefined
    isWoken = false
    step = new AbortController()
    running = runOnce({ ...options, stats, step }, stepOnce).then(settle)
  })
  const settle = (outcome: Outcome): void => {
    running = undefined
    if (outcome.kind === 'bug') {
      options.log.error({ err: outcome.err, loop: options.name }, 'loop broke an assertion')
      options.onBug(outcome.err)
      return
    }
    if (isStopping) return
    if (outcome.kind === 'failed') log.failed(outcome.err)
    else log.succeeded()
    schedule()
  }
  schedule()
  return {
    name: options.name,
    stats,
    wake() {
      // A second call while one is pending must not put it off.
      if (isWoken) return
      isWoken = true
      if (timer === undefined || isStopping) return
      clearTimeout(timer)
      schedule()
    },
    async stop() {
      isStopping = true
      clearTimeout(timer)
      step?.abort(new Error(`the loop ${options.name} is stopping`))
      await running
    },
  }
}

type Outcome =
  | { readonly kind: 'done' }
  | { readonly kind: 'failed'; readonly err: unknown }
  | { readonly kind: 'bug'; readonly err: AssertionError }

interface Step {
  readonly name: string
  readonly timeoutMs: number
  readonly stats: LoopStats
  readonly step: AbortController
}

/** A controller and a timer of its own: `AbortSignal.any` with a lasting signal leaks some bytes each time. */
async function runOnce(
  { name, timeoutMs, stats, step }: Step,
  stepOnce: (signal: AbortSignal) => Promise<void>,
): Promise<Outcome> {
  const startedMs = performance.now()
  const expire = (): void => step.abort(new Error(`${name} took longer than ${timeoutMs} ms`))
  const timer = setTimeout(expire, timeoutMs)
  stats.runs++
  try {
    await stepOnce(step.signal)
    return { kind: 'done' }
  } catch (err) {
    stats.failures++
    return err instanceof AssertionError ? { kind: 'bug', err } : { kind: 'failed', err }
  } finally {
    clearTimeout(timer)
    stats.lastDurationMs = performance.now() - startedMs
  }
}
