import type { Logger } from './logger.ts'

/** What goes on failing is said this often at most, with the number of failures left out in between. */
const SPACING_MS = 10_000

export interface FailureLog {
  failed(err: unknown): void
  succeeded(): void
}

export interface FailureLogOptions {
  readonly log: Logger
  /** Fields of each line. */
  readonly fields: object
  readonly failedMessage: string
  readonly succeededMessage: string
}

/** Says that something fails, and that it works again, without a line for each try of a long outage. */
export function createFailureLog(options: FailureLogOptions): FailureLog {
  const { log, fields } = options
  let toldMs = Number.NEGATIVE_INFINITY
  let suppressed = 0
  let isTold = false
  return {
    failed(err) {
      if (performance.now() - toldMs < SPACING_MS) {
        suppressed++
        return
      }
      log.warn({ ...fields, err, suppressed }, options.failedMessage)
      toldMs = performance.now()
      suppressed = 0
      isTold = true
    },
    succeeded() {
      if (!isTold) return
      log.info({ ...fields, suppressed }, options.succeededMessage)
      suppressed = 0
      isTold = false
    },
  }
}
