import { CliError } from '../errors.ts'
import type { ParsedLine, TraceRequest } from './trace.ts'
import type { RegionRule } from './trace-region.ts'

interface Columns {
  readonly time: number
  readonly client: number
  readonly region: number
}

/**
 * Parses a CSV trace whose header names its columns; other columns are ignored. RFC 4180 quotes are understood,
 * line breaks inside them are not. A line that holds no request throws with its number: a CSV is made on purpose.
 */
export function parseCsvTrace(
  lines: readonly string[],
  path: string,
  regionRule: RegionRule | null,
): ParsedLine[] {
  const columns = columnsOf(lines[0] ?? '', path, regionRule)
  return lines.flatMap((line, index) =>
    index === 0 || line.trim() === ''
      ? []
      : [parseLine(splitCsv(line), columns, `${path}:${index + 1}`, regionRule)],
  )
}

function columnsOf(headerLine: string, path: string, regionRule: RegionRule | null): Columns {
  const header = splitCsv(headerLine).map((name) => name.trim())
  const columns = {
    time: header.indexOf('time_ms'),
    client: header.indexOf('client'),
    region: header.indexOf('region'),
  }
  if (columns.client < 0) throw new CliError(`${path}:1: the header has no column "client"`)
  if (columns.region < 0 && regionRule === null) {
    throw new CliError(`${path}:1: the header has no column "region": give --region-from`)
  }
  return columns
}

function parseLine(
  fields: readonly string[],
  columns: Columns,
  where: string,
  regionRule: RegionRule | null,
): TraceRequest {
  const timeText = fields[columns.time] ?? ''
  const timeMs = Number(timeText)
  const client = fields[columns.client] ?? ''
  if (timeText === '' || !Number.isFinite(timeMs)) {
    throw new CliError(`${where}: time_ms "${timeText}" is not a number`)
  }
  if (client === '') throw new CliError(`${where}: the client is empty`)
  const region = regionRule === null ? (fields[columns.region] ?? '') : regionRule(client)
  return { timeMs, region, client }
}

/** Fields of one line of CSV. */
export function splitCsv(line: string): string[] {
  if (!line.includes('"')) return line.split(',')
  const fields: string[] = []
  const field = /(?:^|,)(?:"((?:[^"]|"")*)"|([^,]*))/g
  for (const match of line.matchAll(field)) {
    fields.push(match[1] === undefined ? (match[2] ?? '') : match[1].replaceAll('""', '"'))
  }
  return fields
}
