import { QuotaError } from '../../shared/errors.ts'
import type { Logger } from '../../shared/runtime/logger.ts'

/** A failure that goes on is said this often, with how many attempts failed since. */
const REPEAT_MS = 30_000

/** Says the first failure of each kind and then a line now and then, so that an outage does not fill the log. */
export class FailureLog {
  readonly #log: Logger
  #code = ''
  #saidMs = Number.NEGATIVE_INFINITY
  #unsaid = 0

  constructor(log: Logger) {
    this.#log = log
  }

  say(err: unknown, nowMs: number): void {
    const code = codeOf(err)
    if (code === this.#code && nowMs - this.#saidMs < REPEAT_MS) {
      this.#unsaid++
      return
    }
    this.#log.warn({ err, unsaid: this.#unsaid }, 'session over Redis ended')
    this.#code = code
    this.#saidMs = nowMs
    this.#unsaid = 0
  }

  /** After a success the next failure is said again. */
  clear(): void {
    this.#code = ''
  }
}

export function codeOf(err: unknown): string {
  return err instanceof QuotaError ? err.code : 'unexpected'
}
