import { InvalidArgumentError } from 'commander'

const SECONDS: Readonly<Record<string, number>> = { s: 1, m: 60, h: 3_600, d: 86_400 }

/** Parser of an option: a span such as 90s, 15m, 2h or 1d, in whole seconds. */
export function durationSeconds(text: string): number {
  const [, count, unit = ''] = /^(\d{1,9})([smhd])$/.exec(text.trim()) ?? []
  const seconds = Number(count) * (SECONDS[unit] ?? Number.NaN)
  if (Number.isSafeInteger(seconds) && seconds > 0) return seconds
  throw new InvalidArgumentError(
    'It must be a whole number with a unit, such as 90s, 15m, 2h or 1d.',
  )
}

/** Parser of an option: such a span of at most `secondsMax`. */
export function durationWithin(secondsMax: number): (text: string) => number {
  return (text) => {
    const seconds = durationSeconds(text)
    if (seconds <= secondsMax) return seconds
    throw new InvalidArgumentError(`It must be at most ${spanOf(secondsMax)}.`)
  }
}

/** A span for people, in its two largest units: `1h 5m`. */
export function spanOf(seconds: number): string {
  let left = Math.max(0, Math.round(seconds))
  const parts: string[] = []
  for (const [unit, size] of Object.entries(SECONDS).reverse()) {
    const count = Math.floor(left / size)
    left -= count * size
    if (count > 0 || (unit === 's' && parts.length === 0)) parts.push(`${count}${unit}`)
  }
  return parts.slice(0, 2).join(' ')
}
