import { readFile } from 'node:fs/promises'
import { CliError } from '../errors.ts'

/** Gives the region of a client whose trace does not name one. */
export type RegionRule = (client: string) => string

export const REGION_FROM_HELP =
  'where requests come from if the trace does not say: "hash" spreads clients over --regions; a region name takes all; FILE has lines "client-prefix,region", the longest prefix wins, "*" for the rest'

/** The rule that `--region-from` means. Rejects when it is a file that cannot be used. */
export async function regionRuleOf(
  regionFrom: string,
  regions: readonly string[],
): Promise<RegionRule> {
  if (regionFrom === 'hash') return (client) => regions[hashOf(client) % regions.length] ?? ''
  if (regions.includes(regionFrom)) return () => regionFrom
  return prefixRule(await readPrefixes(regionFrom, regions), regionFrom)
}

function prefixRule(prefixes: ReadonlyMap<string, string>, path: string): RegionRule {
  const longestFirst = [...prefixes].sort(([a], [b]) => b.length - a.length)
  return (client) => {
    const found = longestFirst.find(([prefix]) => client.startsWith(prefix))
    const region = found?.[1] ?? prefixes.get('*')
    if (region === undefined) {
      throw new CliError(`${path} has no prefix of client "${client}": add a line "*,<region>"`)
    }
    return region
  }
}

async function readPrefixes(
  path: string,
  regions: readonly string[],
): Promise<ReadonlyMap<string, string>> {
  let text: string
  try {
    text = await readFile(path, 'utf8')
  } catch {
    throw new CliError(
      `--region-from ${path} is neither "hash", nor one of ${regions.join(', ')}, nor a readable file`,
    )
  }
  const prefixes = new Map<string, string>()
  for (const [index, line] of text.split(/\r?\n/).entries()) {
    if (line.trim() === '' || line.startsWith('#')) continue
    const [prefix = '', region = ''] = line.split(',').map((part) => part.trim())
    if (prefix === '' || region === '') {
      throw new CliError(`${path}:${index + 1}: expected "client-prefix,region", found "${line}"`)
    }
    prefixes.set(prefix, region)
  }
  return prefixes
}

/** FNV-1a: the same client is in the same region on every run and every machine. */
function hashOf(text: string): number {
  let hash = 0x811c9dc5
  for (const byte of Buffer.from(text)) hash = Math.imul(hash ^ byte, 0x01000193) >>> 0
  return hash
}
