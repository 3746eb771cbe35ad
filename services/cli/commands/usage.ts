import type { Command } from 'commander'
import { z } from 'zod'
import { type UsageReply, usageReplySchema } from '../../../shared/protocol/admin-replies.ts'
import type { Io } from '../io.ts'
import { adminOf } from '../settings.ts'
import { grouped, percent, table } from '../table.ts'
import { adminFlags, printJson, printLines, withAdminFlags, withExamples } from './common.ts'

/** Windows shown for people; `--json` has all that admin keeps. */
const WINDOWS_SHOWN = 3

const flagsSchema = adminFlags.extend({ domain: z.string().optional() })

/** Adds `quotaplane usage`. */
export function addUsageCommand(program: Command, io: Io): void {
  const command = program
    .command('usage')
    .description('show what each limit admitted and denied in its latest windows, by region')
    .option('--domain <domain>', 'only the policies of one domain')
    .action(async (options: unknown) => {
      const flags = flagsSchema.parse(options)
      const pages = await adminOf(flags, io).readPages('/v1/usage', usageReplySchema)
      const limits = pages
        .flatMap((page) => page.limits)
        .filter(({ domain }) => flags.domain === undefined || domain === flags.domain)
      if (flags.json) printJson(io, { at: pages[0]?.at, regions: pages[0]?.regions, limits })
      else printLines(io, usageLines(limits))
    })
  withExamples(withAdminFlags(command), [
    'quotaplane usage',
    'quotaplane usage --domain api --json',
  ])
}

type LimitUsage = UsageReply['limits'][number]

function usageLines(limits: readonly LimitUsage[]): string[] {
  const rows = limits.flatMap((limit) =>
    limit.windows.slice(0, WINDOWS_SHOWN).flatMap((window) => {
      const head = [
        `${limit.domain}/${limit.policy}/${limit.limit}`,
        `${window.startsAt}${window.isComplete ? '' : ' (going on)'}`,
      ]
      const regions = window.regions.map(({ region, admitted, denied }) => [
        ...head,
        region,
        grouped(admitted),
        grouped(denied),
        '',
      ])
      const { total } = window
      const together = [grouped(total.admitted), grouped(total.denied), percent(total.ofCapacity)]
      return [...regions, [...head, 'together', ...together]]
    }),
  )
  return table(['limit', 'window from', 'region', '>admitted', '>denied', '>of capacity'], rows)
}
