/** Lines of logs as times and named fields, in whichever of the known formats a log is. */
import { splitCsv } from '../demo/trace-csv.ts'
import { parseLogLine } from '../demo/trace-log.ts'

export interface LogEntry {
  readonly timeMs: number
  readonly fields: Readonly<Record<string, string>>
  /** Requests that the line stands for, over the time until the next one. */
  readonly requests: number
}

export type LogFormat = 'csv' | 'json' | 'access'

export interface LogParser {
  readonly format: LogFormat
  /** Null for a line that holds no request. */
  readonly parse: (line: string) => LogEntry | null
  /** The first line is no request, but the names of the columns. */
  readonly hasHeader: boolean
}

/** In the order in which they are looked for. */
const TIME_FIELDS = ['time_ms', 'timestamp', '@timestamp', 'time', 'ts', 'date', 'minute_utc']

/** Numbers below are seconds since 1970, and others milliseconds: this many milliseconds were over in 1973. */
const SECONDS_BELOW = 1e11

/** Fields of fields that are named `a.b.c`; more is not looked into. */
const DEPTH_MAX = 4

/** Null when the first line is of no known format. */
export function logParserFor(firstLine: string, timeField: string | null): LogParser | null {
  if (firstLine.trimStart().startsWith('{')) {
    return { format: 'json', hasHeader: false, parse: (line) => parseJson(line, timeField) }
  }
  if (parseAccess(firstLine) !== null) {
    return { format: 'access', hasHeader: false, parse: parseAccess }
  }
  const columns = splitCsv(firstLine).map((name) => name.trim())
  const time = timeNameOf(columns, timeField)
  if (columns.length < 2 || time === null) return null
  const parse = (line: string): LogEntry | null => {
    if (line.trim() === '') return null
    const cells = splitCsv(line)
    const fields = Object.fromEntries(columns.map((name, at) => [name, cells[at] ?? '']))
    return entryOf(fields, time)
  }
  return { format: 'csv', hasHeader: true, parse }
}

function parseJson(line: string, timeField: string | null): LogEntry | null {
  let value: unknown
  try {
    value = JSON.parse(line)
  } catch {
    return null // A line that its writer broke.
  }
  const fields: Record<string, string> = {}
  flatten(value, '', fields, DEPTH_MAX)
  const time = timeNameOf(Object.keys(fields), timeField)
  return time === null ? null : entryOf(fields, time)
}

function flatten(value: unknown, path: string, into: Record<string, string>, depth: number): void {
  if (typeof value !== 'object' || value === null) {
    if (path !== '' && value !== null && value !== undefined) into[path] = String(value)
    return
  }
  if (Array.isArray(value) || depth === 0) return
  for (const [name, part] of Object.entries(value)) {
    flatten(part, path === '' ? name : `${path}.${name}`, into, depth - 1)
  }
}

/** What follows the time of an access log: the request, the status, and in the combined format two fields more. */
const REQUEST =
  /^\S+ \S+ (\S+) .*?\] "(?:(\S+) ([^ "]+)[^"]*)?[^"]*" (\d{3}|-) \S+(?: "([^"]*)" "([^"]*)")?/

function parseAccess(line: string): LogEntry | null {
  const found = parseLogLine(line)
  if (found === null) return null
  const [, user = '', method = '', target = '', status = '', referer = '', agent = ''] =
    REQUEST.exec(line) ?? []
  const [path = ''] = target.split('?')
  const { client, timeMs } = found
  return { timeMs, requests: 1, fields: { client, user, method, path, status, referer, agent } }
}

function timeNameOf(names: readonly string[], timeField: string | null): string | null {
  if (timeField !== null) return names.includes(timeField) ? timeField : null
  return TIME_FIELDS.find((name) => names.includes(name)) ?? null
}

function entryOf(fields: Readonly<Record<string, string>>, time: string): LogEntry | null {
  const timeMs = timeOf(fields[time] ?? '', time)
  if (timeMs === null) return null
  // Traces of counts have one line a minute, or whatever their grain is.
  const said = fields['requests']
  const requests = said === undefined ? 1 : Number(said)
  if (!Number.isSafeInteger(requests) || requests < 0) return null
  return { timeMs, fields, requests }
}

function timeOf(text: string, name: string): number | null {
  if (text === '') return null
  const number = Number(text)
  if (Number.isFinite(number)) {
    return Math.floor(name !== 'time_ms' && number < SECONDS_BELOW ? number * 1_000 : number)
  }
  const parsed = Date.parse(text)
  return Number.isNaN(parsed) ? null : parsed
}
