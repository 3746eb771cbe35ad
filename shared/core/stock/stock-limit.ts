/**
 * Long windows are held as **stock**: tokens that a region was allotted are its own until the window ends.
 *
 * Loans fit windows of minutes: they lapse, and what may have been spent of them is kept back until the window is
 * over. A month is too long for that, and a region that lost its memory could not wait for its end either. So each
 * token of a long window is given to one region, once and for good, and Postgres has the account (`pool.ts`):
 *
 *   floors + allotments <= capacity            for each counter and window, by one transaction of admin
 *   spent in a region <= its floor + allotment  by its script, which knows only what Postgres has confirmed
 *
 * Whatever is lost, late, repeated or forgotten in between can only waste tokens. A region that forgot what it
 * spent counts all that it was ever given as spent (`counter.ts`) and asks for more.
 */
import { type CalendarUnit, type CalendarWindow, calendarWindow } from '../calendar.ts'
import type { StockWindow } from '../policy.ts'

/** Windows from this length on are stock. Shorter ones end before what loans keep back is missed. */
export const STOCK_WINDOW_MS_MIN = 86_400_000

/** A window is opened this long before it begins, or half its length: admin may be away for as long. */
export const OPEN_AHEAD_MS = 86_400_000

export interface WindowRule {
  readonly windowMs: number
  readonly calendar?: { readonly unit: CalendarUnit; readonly timeZone: string } | null
}

const LONG_UNITS: readonly CalendarUnit[] = ['day', 'week', 'month']

/** Whether windows are long enough to be stock. A calendar's day counts as one, also where it has 23 hours. */
export function isLongWindow({ windowMs, calendar }: WindowRule): boolean {
  if (calendar === undefined || calendar === null) return windowMs >= STOCK_WINDOW_MS_MIN
  return LONG_UNITS.includes(calendar.unit)
}

/** The window of a limit in which an instant lies. */
export function windowAt({ windowMs, calendar }: WindowRule, atMs: number): CalendarWindow {
  if (calendar !== undefined && calendar !== null) {
    return calendarWindow(calendar.unit, calendar.timeZone, atMs)
  }
  const id = Math.floor(atMs / windowMs)
  return { id, startMs: id * windowMs, endMs: (id + 1) * windowMs }
}

/**
 * The instant whose window a region is to have opened next; null while it has all that it needs.
 *
 * It needs the window of now, and in good time the next one. Windows that are open are used to their end, also where
 * the limit has other ones by now.
 */
export function instantToOpen(opened: readonly StockWindow[], nowMs: number): number | null {
  const present = opened.find(({ startMs, endMs }) => startMs <= nowMs && nowMs < endMs)
  if (present === undefined) return nowMs
  const { startMs, endMs } = present
  const aheadMs = Math.min(OPEN_AHEAD_MS, (endMs - startMs) / 2)
  const hasNext = opened.some((window) => window.startMs >= endMs)
  return nowMs >= endMs - aheadMs && !hasNext ? endMs : null
}
