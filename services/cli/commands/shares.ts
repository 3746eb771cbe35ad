import type { Command } from 'commander'
import { z } from 'zod'
import { POOL_UNITS } from '../../../shared/core/units.ts'
import type { SharesReply } from '../../../shared/protocol/admin-replies.ts'
import type { Io } from '../io.ts'
import { outputFlags, show, type View, withOutput, withWatch } from '../output.ts'
import { adminOf } from '../settings.ts'
import { readShares } from '../shares-client.ts'
import { grouped, percent } from '../table.ts'
import { adminFlags, withAdminFlags, withExamples } from './common.ts'

const flagsSchema = adminFlags.extend(outputFlags.shape).extend({ domain: z.string().optional() })

/** Adds `quotaplane shares`. */
export function addSharesCommand(program: Command, io: Io): void {
  const command = program
    .command('shares')
    .description('show which part of each limit each region may use at present')
    .option('--domain <domain>', 'only the policies of one domain')
    .action(async (options: unknown) => {
      const flags = flagsSchema.parse(options)
      const client = adminOf(flags, io)
      const { domain } = flags
      await show(io, flags, async () => sharesView(await readShares(client, domain)), {
        live: { client, events: ['shares', 'regions'], domain },
      })
    })
  withExamples(withWatch(withOutput(withAdminFlags(command))), [
    'quotaplane shares',
    'quotaplane shares --watch --domain api',
    'quotaplane shares --json | jq ".limits[0].keys"',
  ])
}

type LimitShares = SharesReply['limits'][number]

function sharesView({ at, regions, limits }: SharesReply): View {
  const rows = limits.flatMap((limit) => [
    ...Object.entries(limit.base).map(([region, units]) => baseRow(limit, region, units)),
    ...limit.keys.flatMap(({ key, regions: parts }) =>
      parts.map((row) => [
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
  const stale = regions.filter(({ ageMs }) => ageMs === null || ageMs > 5_000)
  return {
    data: { at, regions, limits },
    headers: [
      'limit',
      'key',
      'region',
      '>share',
      '>tokens',
      '>base',
      '>lent',
      '>borrowed',
      '>demand',
    ],
    rows,
    names: limits.map(nameOf),
    notes: stale.map(({ region, ageMs }) =>
      ageMs === null
        ? `Nothing was heard from ${region} yet.`
        : `The last word from ${region} is ${Math.round(ageMs / 1_000)} s old.`,
    ),
  }
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
