import { CliError } from '../errors.ts'
import type { ParsedLine } from './trace.ts'
import type { RegionRule } from './trace-region.ts'

/** `host ident user [10/Oct/2000:13:55:36 -0700] "GET / HTTP/1.0" 200 2326`; Combined adds two quoted fields. */
const LINE =
  /^(\S+) \S+ .*?\[(\d{2})\/([A-Z][a-z]{2})\/(\d{4}):(\d{2}):(\d{2}):(\d{2}) ([+-])(\d{2})(\d{2})\] "/

const MONTHS = ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec']

const MINUTE_MS = 60_000

/**
 * Parses an access log in the Common or Combined Log Format. A line that is not one gives null: real logs hold
 * lines that their writer broke. The host is the client.
 */
export function parseLogTrace(
  lines: readonly string[],
  regionRule: RegionRule | null,
): ParsedLine[] {
  const parsed = lines.filter((line) => line.trim() !== '').map(parseLogLine)
  const isLog = parsed.some((line) => line !== null)
  if (isLog && regionRule === null) {
    throw new CliError('an access log does not name regions: give --region-from, such as "hash"')
  }
  return parsed.map(
    (line) => line && { ...line, region: regionRule === null ? '' : regionRule(line.client) },
  )
}

/** The host and the time of one line of an access log; null for a line that is none. */
export function parseLogLine(line: string): { timeMs: number; client: string } | null {
  const match = LINE.exec(line)
  if (match === null) return null
  const [
    ,
    client = '',
    day,
    monthName = '',
    year,
    hour,
    minute,
    second,
    sign,
    zoneHours,
    zoneMinutes,
  ] = match
  const month = MONTHS.indexOf(monthName)
  if (month < 0) return null
  const localMs = Date.UTC(
    Number(year),
    month,
    Number(day),
    Number(hour),
    Number(minute),
    Number(second),
  )
  const aheadMs = (Number(zoneHours) * 60 + Number(zoneMinutes)) * MINUTE_MS
  return { client, timeMs: sign === '-' ? localMs + aheadMs : localMs - aheadMs }
}
