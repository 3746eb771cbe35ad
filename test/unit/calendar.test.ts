import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  CALENDAR_UNITS,
  type CalendarUnit,
  calendarWindow,
  longestWindowMs,
  parseTimeZone,
} from '../../shared/core/calendar.ts'

const HOUR_MS = 3_600_000

const ms = (text: string): number => Date.parse(text)
const iso = (atMs: number): string => new Date(atMs).toISOString().replace('.000Z', 'Z')
const bounds = (unit: CalendarUnit, timeZone: string, at: string): string[] => {
  const { startMs, endMs } = calendarWindow(unit, timeZone, ms(at))
  return [iso(startMs), iso(endMs)]
}

const ZONES = [
  'UTC',
  'Europe/London',
  'America/New_York',
  'America/Sao_Paulo',
  'America/St_Johns',
  'Asia/Kathmandu',
  'Asia/Kolkata',
  'Australia/Lord_Howe',
  'Pacific/Apia',
  'Pacific/Chatham',
]
const zone = fc.constantFrom(...ZONES)
const unit = fc.constantFrom(...CALENDAR_UNITS)
const instant = fc.integer({ min: ms('2006-01-01T00:00:00Z'), max: ms('2030-01-01T00:00:00Z') })

describe('a calendar window', () => {
  it.each<[CalendarUnit, string, string, string, string]>([
    ['minute', 'UTC', '2026-05-05T10:20:30Z', '2026-05-05T10:20:00Z', '2026-05-05T10:21:00Z'],
    [
      'hour',
      'Asia/Kathmandu',
      '2026-05-05T10:20:30Z',
      '2026-05-05T10:15:00Z',
      '2026-05-05T11:15:00Z',
    ],
    ['day', 'Asia/Tokyo', '2026-05-05T20:00:00Z', '2026-05-05T15:00:00Z', '2026-05-06T15:00:00Z'],
    ['week', 'UTC', '2026-05-10T23:59:59Z', '2026-05-04T00:00:00Z', '2026-05-11T00:00:00Z'],
    ['week', 'UTC', '2026-05-11T00:00:00Z', '2026-05-11T00:00:00Z', '2026-05-18T00:00:00Z'],
    ['month', 'UTC', '2028-02-29T12:00:00Z', '2028-02-01T00:00:00Z', '2028-03-01T00:00:00Z'],
  ])('of a %s in %s at %s is from %s to %s', (length, timeZone, at, start, end) => {
    expect(bounds(length, timeZone, at)).toEqual([start, end])
  })

  // B115: whatever the zone of the host, which these never read.
  it('is a day of 24 hours in UTC, and of 25 and 23 in London where its clocks change', () => {
    const hours = (timeZone: string, at: string): number => {
      const { startMs, endMs } = calendarWindow('day', timeZone, ms(at))
      return (endMs - startMs) / HOUR_MS
    }
    expect(hours('UTC', '2026-10-25T12:00:00Z')).toBe(24)
    expect(hours('UTC', '2026-03-29T12:00:00Z')).toBe(24)
    expect(hours('Europe/London', '2026-10-25T12:00:00Z')).toBe(25)
    expect(hours('Europe/London', '2026-03-29T12:00:00Z')).toBe(23)
  })

  // B115: both hours that are called 01:30 that night belong to one day, and to two hours.
  it('is one window for the whole local day, though an hour of it comes twice', () => {
    const first = ms('2026-10-25T00:30:00Z')
    const second = ms('2026-10-25T01:30:00Z')
    const at = (length: CalendarUnit, atMs: number) => calendarWindow(length, 'Europe/London', atMs)
    expect(at('day', second)).toEqual(at('day', first))
    expect(at('hour', second).id).not.toBe(at('hour', first).id)
  })

  it('begins with the first instant of a day that has no midnight', () => {
    expect(bounds('day', 'America/Sao_Paulo', '2018-11-04T12:00:00Z')).toEqual([
      '2018-11-04T03:00:00Z',
      '2018-11-05T02:00:00Z',
    ])
  })

  it('does not go back to a day whose midnight came before the clocks were set back', () => {
    const day = calendarWindow('day', 'America/St_Johns', ms('2010-11-07T02:30:30Z'))
    for (const at of ['2010-11-07T02:31:30Z', '2010-11-07T03:30:00Z', '2010-11-08T03:29:59Z']) {
      expect(calendarWindow('day', 'America/St_Johns', ms(at))).toEqual(day)
    }
  })

  it('skips a date that a zone skipped', () => {
    const before = calendarWindow('day', 'Pacific/Apia', ms('2011-12-30T09:59:59Z'))
    const after = calendarWindow('day', 'Pacific/Apia', before.endMs)
    expect(after.id).toBe(before.id + 2)
  })

  // B113
  it('ends and the next begins at one instant of the month edge', () => {
    const edge = ms('2026-04-01T00:00:00Z')
    const march = calendarWindow('month', 'UTC', edge - 1)
    const april = calendarWindow('month', 'UTC', edge)
    expect([march.startMs, march.endMs]).toEqual([ms('2026-03-01T00:00:00Z'), edge])
    expect([april.startMs, april.endMs]).toEqual([edge, ms('2026-05-01T00:00:00Z')])
    expect(april.id).toBe(march.id + 1)
  })

  // B023: an hour or a day later it is the same window, so nothing can begin anew.
  it('keeps its id and its end until it is over', () => {
    const at = ms('2026-05-05T10:00:00Z')
    const month = calendarWindow('month', 'UTC', at)
    for (const later of [1, HOUR_MS, 26 * 24 * HOUR_MS]) {
      expect(calendarWindow('month', 'UTC', at + later)).toEqual(month)
    }
  })

  it('contains its instant, adjoins the next and lasts no longer than its unit may', () => {
    fc.assert(
      fc.property(unit, zone, instant, (length, timeZone, at) => {
        const window = calendarWindow(length, timeZone, at)
        expect(window.startMs <= at && at < window.endMs).toBe(true)
        expect(calendarWindow(length, timeZone, window.startMs)).toEqual(window)
        expect(calendarWindow(length, timeZone, window.endMs - 1)).toEqual(window)
        const next = calendarWindow(length, timeZone, window.endMs)
        expect(next.startMs).toBe(window.endMs)
        expect(next.id).toBeGreaterThan(window.id)
        expect(window.endMs - window.startMs).toBeLessThanOrEqual(longestWindowMs(length))
      }),
      { numRuns: 500 },
    )
  })
})

describe('the name of a time zone', () => {
  it.each([
    ['Europe/London', 'Europe/London'],
    ['europe/london', 'Europe/London'],
    ['utc', 'UTC'],
    ['Etc/GMT+5', 'Etc/GMT+5'],
  ])('%s is %s', (name, expected) => {
    expect(parseTimeZone(name)).toBe(expected)
  })

  it.each(['', 'Europe/Nowhere', '+02:00', 'Z', '__proto__', 'UTC ', '2026'])(
    '"%s" is none',
    (name) => {
      expect(parseTimeZone(name)).toBeNull()
    },
  )
})
