import { readFile, stat } from 'node:fs/promises'
import { CliError } from '../errors.ts'
import { parseCsvTrace } from './trace-csv.ts'
import { parseLogTrace } from './trace-log.ts'
import type { RegionRule } from './trace-region.ts'

/** One recorded request. */
export interface TraceRequest {
  readonly timeMs: number
  readonly region: string
  readonly client: string
}

export interface Trace {
  /** In order of time. */
  readonly requests: readonly TraceRequest[]
  /** In order of name. */
  readonly regions: readonly string[]
  readonly clients: number
  /** Lines that held no request, such as those of a broken writer. */
  readonly skippedLines: number
}

/** Lines of a trace as the two parsers see them; `null` for a line that holds no request. */
export type ParsedLine = TraceRequest | null

/** Larger files are refused: requests are held in memory, and a demo is not a bulk import. */
const TRACE_BYTES_MAX = 256 * 1024 * 1024
const TRACE_REQUESTS_MAX = 1_000_000

/** One enforcer, sync daemon, Redis and NATS each: more regions do not fit on one machine. */
const TRACE_REGIONS_MAX = 8

/** A file of which more lines than this part cannot be read is of another format. */
const UNREADABLE_MAX = 0.1

/** A region's name as admin accepts it. */
const REGION = /^[a-z0-9][a-z0-9-]{0,62}$/

/**
 * Reads a recorded trace: CSV with a header that names `time_ms`, `client` and maybe `region`, or the Common or
 * Combined Log Format. Rejects with what is wrong and on which line.
 */
export async function readTrace(path: string, regionRule: RegionRule | null): Promise<Trace> {
  const text = await readText(path)
  const firstLine = text.slice(0, text.indexOf('\n') + 1 || undefined)
  const lines = text.split(/\r?\n/)
  const parsed = isCsvHeader(firstLine)
    ? parseCsvTrace(lines, path, regionRule)
    : parseLogTrace(lines, regionRule)
  const requests = parsed.filter((line) => line !== null)
  const skippedLines = parsed.length - requests.length
  if (requests.length === 0 || skippedLines > UNREADABLE_MAX * parsed.length) {
    throw new CliError(
      `${path} is neither a CSV trace (header time_ms,region,client) nor an access log in the Common or Combined Log Format: ${skippedLines} of ${parsed.length} lines cannot be read`,
    )
  }
  if (requests.length > TRACE_REQUESTS_MAX) {
    throw new CliError(`${path} has more than ${TRACE_REQUESTS_MAX} requests; replay a part of it`)
  }
  requests.sort((a, b) => a.timeMs - b.timeMs)
  const regions = [...new Set(requests.map(({ region }) => region))].sort()
  checkRegions(regions, path)
  const clients = new Set(requests.map(({ client }) => client)).size
  return { requests, regions, clients, skippedLines }
}

async function readText(path: string): Promise<string> {
  try {
    const { size } = await stat(path)
    if (size > TRACE_BYTES_MAX) {
      throw new CliError(`${path} is larger than ${TRACE_BYTES_MAX} bytes; replay a part of it`)
    }
    return await readFile(path, 'utf8')
  } catch (err) {
    if (err instanceof CliError) throw err
    throw new CliError(`cannot read the trace: ${err instanceof Error ? err.message : err}`)
  }
}

function isCsvHeader(line: string): boolean {
  return line.split(',').some((name) => name.trim().replaceAll('"', '') === 'time_ms')
}

function checkRegions(regions: readonly string[], path: string): void {
  const bad = regions.find((region) => !REGION.test(region))
  if (bad !== undefined) {
    throw new CliError(
      `${path} names the region "${bad}": use lower-case letters, digits and hyphens, at most 63`,
    )
  }
  if (regions.length > TRACE_REGIONS_MAX) {
    throw new CliError(
      `${path} has ${regions.length} regions, and at most ${TRACE_REGIONS_MAX} fit on one machine: give --region-from`,
    )
  }
}
