import { setTimeout as delay } from 'node:timers/promises'
import type { Command } from 'commander'
import { z } from 'zod'
import { POOL_UNITS } from '../../../shared/core/units.ts'
import type { SharesReply } from '../../../shared/protocol/admin-replies.ts'
import type { Io } from '../io.ts'
import { adminOf } from '../settings.ts'
import { readShares } from '../shares-client.ts'
import { grouped, percent, table } from '../table.ts'
import { adminFlags, printJson, printLines, withAdminFlags, withExamples } from './common.ts'

const WATCH_EVERY_MS = 1_000

const flagsSchema = adminFlags.extend({
  watch: z.boolean().default(false),
  domain: z.string().optional(),
})

/** Adds `quotaplane shares`. */
export function addSharesCommand(program: Command, io: Io): void {
  const command = program
    .command('shares')
    .description('show which part of each limit each region may use at present')
    .option('--watch', 'show them again each second, until Ctrl-C')
    .option('--domain <domain>', 'only the policies of one domain')
    .action(async (options: unknown) => {
      const flags = flagsSchema.parse(options)
      const client = adminOf(flags, io)
      do {
        const reply = await readShares(client)
        const limits = reply.limits.filter(
          ({ domain }) => flags.domain === undefined || domain === flags.domain,
        )
        if (flags.json) printJson(io, { at: reply.at, regions: reply.regions, limits })
        else draw(io, flags.watch, shareLines({ ...reply, limits }))
        if (flags.watch)
          await delay(WATCH_EVERY_MS, undefined, { signal: io.signal }).catch(() => {})
      } while (flags.watch && !io.signal.aborted)
    })
  withExamples(withAdminFlags(command), [
    'quotaplane shares',
    'quotaplane shares --watch --domain api',
    'quotaplane shares --json | jq ".limits[0].keys"',
  ])
}

/** A watched view starts at the top of a terminal again; in a file each view follows the one before. */
function draw(io: Io, isWatched: boolean, lines: readonly string[]): void {
  if (isWatched && io.out.isTerminal) io.out.write('\u001b[2J\u001b[H')
  printLines(io, lines)
}

type LimitShares = SharesReply['limits'][number]

function shareLines(reply: SharesReply): string[] {
  const rows = reply.limits.flatMap((limit) => [
    ...Object.entries(limit.base).map(([region, units]) => baseRow(limit, region, units)),
    ...limit.keys.flatMap(({ key, regions }) =>
      regions.map((row) => [
        nameOf(limit),
        key,
        row.region,
        percent(row.share.units / POOL_UNITS),
        grouped(row.share.tokens),
        percent(row.base.units / POOL_UNITS),
        percent(row.lent / POOL_UNITS),
        percent(row.borrowed / POOL_UNITS),
        `${grouped(Math.round(row.demandPerSecond))}/s${row.isHungry ? ' (short)' : ''}`,
      ]),
    ),
  ])
  const stale = reply.regions.filter(({ ageMs }) => ageMs === null || ageMs > 5_000)
  return [
    ...table(
      ['limit', 'key', 'region', '>share', '>tokens', '>base', '>lent', '>borrowed', '>demand'],
      rows,
    ),
    ...stale.map(({ region, ageMs }) =>
      ageMs === null
        ? `Nothing was heard from ${region} yet.`
        : `The last word from ${region} is ${Math.round(ageMs / 1_000)} s old.`,
    ),
  ]
}

/** What keys that are not in short supply have. */
function baseRow(limit: LimitShares, region: string, units: number): string[] {
  const part = percent(units / POOL_UNITS)
  const tokens = grouped(Math.floor((limit.capacity * units) / POOL_UNITS))
  return [nameOf(limit), '(any other)', region, part, tokens, part, '', '', '']
}

function nameOf(limit: LimitShares): string {
  return `${limit.domain}/${limit.policy}/${limit.limit}`
}
