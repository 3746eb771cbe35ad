import { calendarWindow } from '../calendar.ts'
import type { RegionLimit } from '../policy.ts'

/** A fixed window and the beginning of the one before it, in us of wall time. */
export interface WindowEdges {
  readonly startUs: number
  readonly endUs: number
  readonly previousUs: number
}

/** The window of a limit in which an instant lies: of its calendar, or aligned to 1970. */
export function windowEdges(
  { windowMs, calendar }: Pick<RegionLimit, 'windowMs' | 'calendar'>,
  atUs: number,
): WindowEdges {
  if (calendar === null) {
    const windowUs = windowMs * 1_000
    const startUs = Math.floor(atUs / windowUs) * windowUs
    return { startUs, endUs: startUs + windowUs, previousUs: startUs - windowUs }
  }
  const { unit, timeZone } = calendar
  const window = calendarWindow(unit, timeZone, Math.floor(atUs / 1_000))
  const before = calendarWindow(unit, timeZone, window.startMs - 1)
  return {
    startUs: window.startMs * 1_000,
    endUs: window.endMs * 1_000,
    previousUs: before.startMs * 1_000,
  }
}
