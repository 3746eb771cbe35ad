/** Requests of a log as the checks that a gateway would have made of them, in the order of time. */
import type { Descriptor } from '../../../shared/core/descriptor.ts'
import type { PolicyDocument } from '../../../shared/protocol/policy.ts'
import { CliError, EXIT } from '../errors.ts'
import { type LogEntry, type LogParser, logParserFor } from './log-formats.ts'

/** Keys of a descriptor's entries, each with the field of the log that has its value. */
export type DescriptorMap = readonly { readonly key: string; readonly field: string }[]

export interface LoggedCheck {
  readonly timeMs: number
  readonly region: string
  readonly descriptors: readonly Descriptor[]
}

export interface CheckSource {
  readonly lines: AsyncIterable<string>
  readonly path: string
  readonly timeField: string | null
  /** Null where the log names its regions. */
  readonly regionOf: ((client: string) => string) | null
  /** From the fields of the first request; the descriptors that each request comes to. */
  readonly mapOf: (fields: readonly string[]) => readonly DescriptorMap[]
}

export interface CheckCounts {
  /** Lines that hold no request. */
  skipped: number
  /** Requests that came later in the log than they may, and were taken as if at the time of the one before. */
  late: number
}

/** Requests that are held back so that those that come a little out of order are put in it: logs are written at the end of a request. */
const HELD = 1_024

/** Time that a line of many requests stands for when no next line says. */
const GRAIN_MS = 60_000

export async function* checksOf(
  source: CheckSource,
  counts: CheckCounts,
): AsyncGenerator<LoggedCheck> {
  const held: LoggedCheck[] = []
  let lastMs = Number.NEGATIVE_INFINITY
  const next = (): LoggedCheck[] => {
    const check = held.shift()
    if (check === undefined) return []
    if (check.timeMs < lastMs) counts.late++
    lastMs = Math.max(lastMs, check.timeMs)
    return [{ ...check, timeMs: lastMs }]
  }
  for await (const check of unordered(source, counts)) {
    insert(held, check)
    if (held.length > HELD) yield* next()
  }
  while (held.length > 0) yield* next()
}

function insert(held: LoggedCheck[], check: LoggedCheck): void {
  let at = held.length
  while (at > 0 && (held[at - 1]?.timeMs ?? 0) > check.timeMs) at--
  held.splice(at, 0, check)
}

async function* unordered(source: CheckSource, counts: CheckCounts): AsyncGenerator<LoggedCheck> {
  let maps: readonly DescriptorMap[] | null = null
  let many: LogEntry | null = null
  for await (const entry of entriesOf(source, counts)) {
    maps ??= source.mapOf(Object.keys(entry.fields))
    if (many !== null) yield* spread(many, entry.timeMs - many.timeMs, source, maps)
    many = entry.requests === 1 ? null : entry
    if (many === null) yield checkOf(entry, entry.timeMs, source, maps)
  }
  if (many !== null && maps !== null) yield* spread(many, GRAIN_MS, source, maps)
}

async function* entriesOf(source: CheckSource, counts: CheckCounts): AsyncGenerator<LogEntry> {
  let parser: LogParser | null = null
  for await (const line of source.lines) {
    if (parser === null) {
      parser = parserFor(line, source)
      if (parser.hasHeader) continue
    }
    const entry = parser.parse(line)
    if (entry !== null) yield entry
    else if (line.trim() !== '') counts.skipped++
  }
}

function parserFor(line: string, { path, timeField }: CheckSource): LogParser {
  const parser = logParserFor(line, timeField)
  if (parser !== null) return parser
  throw new CliError(
    `${path}:1: is no access log, no JSON lines with a time, and no CSV whose header names one${timeField === null ? ' (say which field has it with --time)' : ` called ${timeField}`}`,
    EXIT.usage,
  )
}

/** The requests of one line, evenly over the time that it stands for. */
function* spread(
  entry: LogEntry,
  forMs: number,
  source: CheckSource,
  maps: readonly DescriptorMap[],
): Generator<LoggedCheck> {
  const grainMs = forMs > 0 ? forMs : GRAIN_MS
  for (let request = 0; request < entry.requests; request++) {
    const timeMs = entry.timeMs + Math.floor((request * grainMs) / entry.requests)
    yield checkOf(entry, timeMs, source, maps)
  }
}

function checkOf(
  { fields }: LogEntry,
  timeMs: number,
  { regionOf, path }: CheckSource,
  maps: readonly DescriptorMap[],
): LoggedCheck {
  const region = regionOf === null ? fields['region'] : regionOf(fields['client'] ?? '')
  if (region === undefined || region === '') {
    throw new CliError(`${path} does not name regions: give --region-from`, EXIT.usage)
  }
  const descriptors = maps.flatMap((map) => {
    const entries = map.map(({ key, field }) => ({ key, value: fields[field] ?? '' }))
    // A gateway makes no descriptor of what a request lacks.
    return entries.some(({ value }) => value === '') ? [] : [{ entries }]
  })
  return { timeMs, region, descriptors }
}

/**
 * The descriptors that policies ask for, as far as the log has fields of their keys' names; what `--map` stands in
 * for.
 */
export function mapByNames(
  policies: readonly PolicyDocument[],
  fields: readonly string[],
): readonly DescriptorMap[] {
  const maps = new Map<string, DescriptorMap>()
  for (const { match } of policies) {
    if (!match.every(({ key }) => fields.includes(key))) continue
    maps.set(
      match.map(({ key }) => key).join('\n'),
      match.map(({ key }) => ({ key, field: key })),
    )
  }
  return [...maps.values()]
}
