/** Each is long: a machine that is too slow three times in a row is too slow for what is promised. */
const TRIES = 3

/**
 * Measures what the whole plane does, again where it came late: a machine that is busy with something else may spoil a
 * figure, but not each time. What `always` checks must hold in every try, however slow the machine is.
 */
export async function holdsInATry<T>(
  measure: (attempt: number) => Promise<T>,
  checks: {
    readonly always?: (measured: T) => void
    readonly once: (measured: T) => void
  },
): Promise<void> {
  for (let attempt = 1; ; attempt++) {
    const measured = await measure(attempt)
    checks.always?.(measured)
    try {
      checks.once(measured)
      return
    } catch (err) {
      if (attempt === TRIES) throw err
      process.stderr.write(`again, since ${err instanceof Error ? err.message : err}\n`)
    }
  }
}
