/** Figures as people read them; the full number stands in the title of what shows it. */
const COMPACT = new Intl.NumberFormat('en', { notation: 'compact', maximumFractionDigits: 1 })
const FULL = new Intl.NumberFormat('en', { maximumFractionDigits: 2 })

export function compact(value: number): string {
  return Math.abs(value) < 10_000 ? FULL.format(value) : COMPACT.format(value)
}

export function full(value: number): string {
  return FULL.format(value)
}

export function percent(ratio: number): string {
  return `${(100 * ratio).toFixed(ratio === 0 || ratio >= 0.1 ? 0 : 1)} %`
}

/** "3 s", "2 min", "5 h", "4 d"; whole units, rounded down. */
export function age(ms: number): string {
  const seconds = Math.floor(ms / 1_000)
  if (seconds < 120) return `${seconds} s`
  if (seconds < 7_200) return `${Math.floor(seconds / 60)} min`
  if (seconds < 172_800) return `${Math.floor(seconds / 3_600)} h`
  return `${Math.floor(seconds / 86_400)} d`
}

/** A window as its words: "second", "10 s", "minute", "hour", "day". */
export function windowName(ms: number): string {
  const names: Readonly<Record<number, string>> = {
    1000: 'second',
    60000: 'minute',
    3600000: 'hour',
    86400000: 'day',
  }
  return names[ms] ?? age(ms)
}

export function clock(iso: string): string {
  return new Date(iso).toLocaleTimeString('en-GB')
}

/** "1 Dec, 09:30", by the clock of who looks. */
export function dayAndTime(iso: string): string {
  return new Date(iso).toLocaleString('en-GB', {
    day: 'numeric',
    month: 'short',
    hour: '2-digit',
    minute: '2-digit',
  })
}
