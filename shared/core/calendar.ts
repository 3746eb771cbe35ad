/**
 * Windows that follow a calendar: each minute, hour, day, week or month of a time zone.
 *
 * The windows of one calendar tile time: each instant lies in exactly one, whatever the zone's clocks do. Days,
 * weeks (from Monday) and months are named by the local date on which they begin, so that every region names one
 * alike even where its time zone data is older; they last as long as the zone makes them, a day of 23 or 25 hours
 * included. Minutes and hours follow the offset in force and end where it changes.
 */
import { Temporal } from 'temporal-polyfill'
import { assert } from './assert.ts'

export const CALENDAR_UNITS = ['minute', 'hour', 'day', 'week', 'month'] as const
export type CalendarUnit = (typeof CALENDAR_UNITS)[number]

/** One window: `startMs <= t < endMs`. Later windows have larger ids; ids compare within one calendar only. */
export interface CalendarWindow {
  readonly id: number
  readonly startMs: number
  readonly endMs: number
}

const MINUTE_MS = 60_000
const LENGTHS_MS = { minute: MINUTE_MS, hour: 60 * MINUTE_MS }

/** 29 December 1969 was the Monday before the first day of 1970. */
const FIRST_MONDAY = -3

/** Offsets such as `+02:00` are no names: a policy that means Paris must say so. */
const ZONE_NAME = /^[A-Za-z][A-Za-z0-9_+\-/]*$/

/** The time zone's name as IANA spells it, or null where there is none of that name. */
export function parseTimeZone(name: string): string | null {
  if (!ZONE_NAME.test(name)) return null
  try {
    return Temporal.Instant.fromEpochMilliseconds(0).toZonedDateTimeISO(name).timeZoneId
  } catch (err) {
    // Temporal's answer to an unknown name.
    if (err instanceof RangeError) return null
    throw err
  }
}

/**
 * The window in which the instant `atMs` lies; the window at its `endMs` is the next one.
 *
 * `timeZone` is a name that `parseTimeZone` gave. Takes a tenth of a millisecond: keep the answer until it ends.
 */
export function calendarWindow(unit: CalendarUnit, timeZone: string, atMs: number): CalendarWindow {
  const at = Temporal.Instant.fromEpochMilliseconds(Math.floor(atMs)).toZonedDateTimeISO(timeZone)
  const window =
    unit === 'minute' || unit === 'hour'
      ? windowOfOffset(at, LENGTHS_MS[unit])
      : windowOfDates(at, unit)
  assert(window.startMs <= atMs && atMs < window.endMs, 'a window contains its instant')
  return window
}

/** Longest that a window of this unit lasts, with a day for what zones may add. */
export function longestWindowMs(unit: CalendarUnit): number {
  const days = { minute: 0, hour: 0, day: 1, week: 7, month: 31 }[unit]
  if (unit === 'minute' || unit === 'hour') return LENGTHS_MS[unit]
  return (days + 1) * 24 * LENGTHS_MS.hour
}

/** A part of the local hour or minute, cut where the zone's offset changes within it. */
function windowOfOffset(at: Temporal.ZonedDateTime, lengthMs: number): CalendarWindow {
  const offsetMs = Math.floor(at.offsetNanoseconds / 1e6)
  const wholeMs = Math.floor((at.epochMilliseconds + offsetMs) / lengthMs) * lengthMs - offsetMs
  const changedMs = at.add({ nanoseconds: 1 }).getTimeZoneTransition('previous')?.epochMilliseconds
  const changesMs = at.getTimeZoneTransition('next')?.epochMilliseconds
  const startMs = Math.max(wholeMs, changedMs ?? wholeMs)
  const endMs = Math.min(wholeMs + lengthMs, changesMs ?? Number.POSITIVE_INFINITY)
  return { id: Math.floor(startMs / MINUTE_MS), startMs, endMs }
}

/**
 * The latest day, week or month that has begun.
 *
 * Where clocks were set back across midnight, the date that they show for the second time is over already.
 */
function windowOfDates(at: Temporal.ZonedDateTime, unit: 'day' | 'week' | 'month'): CalendarWindow {
  const startOf = (date: Temporal.PlainDate): number =>
    date.toZonedDateTime(at.timeZoneId).epochMilliseconds
  let first = firstDate(at.toPlainDate(), unit)
  let next = first.add(STEPS[unit])
  while (startOf(next) <= at.epochMilliseconds) {
    first = next
    next = first.add(STEPS[unit])
  }
  return { id: idOf(first, unit), startMs: startOf(first), endMs: startOf(next) }
}

const STEPS = { day: { days: 1 }, week: { days: 7 }, month: { months: 1 } }

function firstDate(date: Temporal.PlainDate, unit: 'day' | 'week' | 'month'): Temporal.PlainDate {
  if (unit === 'day') return date
  if (unit === 'month') return date.with({ day: 1 })
  return date.subtract({ days: date.dayOfWeek - 1 })
}

function idOf(first: Temporal.PlainDate, unit: 'day' | 'week' | 'month'): number {
  if (unit === 'month') return (first.year - 1970) * 12 + first.month - 1
  const days = Temporal.PlainDate.from('1970-01-01').until(first).days
  return unit === 'day' ? days : (days - FIRST_MONDAY) / 7
}
