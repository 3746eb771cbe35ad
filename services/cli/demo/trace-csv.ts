import { CliError } from '../errors.ts'
import type { ParsedLine } from './trace.ts'
import type { RegionRule } from './trace-region.ts'

/**
 * Parses a CSV trace whose header names its columns; other columns are ignored. RFC 4180 quotes are understood,
 * line breaks inside them are not. A line that holds no request throws with its number: a CSV is made on purpose.
 */
export function parseCsvTrace(
  lines: readonly string[],
  path: string,
  regionRule: RegionRule | null,
): ParsedLine[] {
  const header = splitCsv(lines[0] ?? '').map((name) => name.trim())
  const column = (name: string): number => header.indexOf(name)
  const [time, client, region] = [column('time_ms'), column('client'), column('region')]
  if (client < 0) throw new CliError(`${path}:1: the header has no column "client"`)
  if (region < 0 && regionRule === null) {
    throw new CliError(`${path}:1: the header has no column "region": give --region-from`)
  }
  const requests: ParsedLine[] = []
  for (const [index, line] of lines.entries()) {
    if (index === 0 || line.trim() === '') continue
    const fields = splitCsv(line)
    const timeText = fields[time] ?? ''
    const timeMs = Number(timeText)
    const who = fields[client] ?? ''
    if (timeText === '' || !Number.isFinite(timeMs)) {
      throw new CliError(`${path}:${index + 1}: time_ms "${timeText}" is not a number`)
    }
    if (who === '') throw new CliError(`${path}:${index + 1}: the client is empty`)
    const where = regionRule === null ? (fields[region] ?? '') : regionRule(who)
    requests.push({ timeMs, region: where, client: who })
  }
  return requests
}

function splitCsv(line: string): string[] {
  if (!line.includes('"')) return line.split(',')
  const fields: string[] = []
  const field = /(?:^|,)(?:"((?:[^"]|"")*)"|([^,]*))/g
  for (const match of line.matchAll(field)) {
    fields.push(match[1] === undefined ? (match[2] ?? '') : match[1].replaceAll('""', '"'))
  }
  return fields
}
