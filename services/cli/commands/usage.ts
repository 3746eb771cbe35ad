import type { Command } from 'commander'
import { z } from 'zod'
import { type UsageReply, usageReplySchema } from '../../../shared/protocol/admin-replies.ts'
import { ofDomain } from '../arguments.ts'
import type { Io } from '../io.ts'
import { outputFlags, show, type View, withOutput, withWatch } from '../output.ts'
import { adminOf } from '../settings.ts'
import { grouped, percent } from '../table.ts'
import { adminFlags, withAdminFlags, withExamples } from './common.ts'
import { addUsageHistory, addUsageTop } from './usage-reading.ts'

/** Windows in the table; the other forms have all that admin keeps. */
const WINDOWS_SHOWN = 3

const flagsSchema = adminFlags.extend(outputFlags.shape).extend({ domain: z.string().optional() })

/** Adds `quotaplane usage`. */
export function addUsageCommand(program: Command, io: Io): void {
  const command = program
    .command('usage')
    .enablePositionalOptions()
    .description('show what each limit admitted and denied in its latest windows, by region')
    .option('--domain <domain>', 'only the policies of one domain')
    .action(async (options: unknown) => {
      const flags = flagsSchema.parse(options)
      const client = adminOf(flags, io)
      const { domain } = flags
      const read = async (): Promise<View> => {
        const pages = await client.readPages(ofDomain('/v1/usage', flags), usageReplySchema)
        const limits = pages.flatMap((page) => page.limits)
        return usageView({ at: pages[0]?.at, regions: pages[0]?.regions, limits })
      }
      await show(io, flags, read, { live: { client, events: ['usage', 'regions'], domain } })
    })
  withExamples(withWatch(withOutput(withAdminFlags(command))), [
    'quotaplane usage',
    'quotaplane usage --watch',
    'quotaplane usage --domain api --json',
  ])
  addUsageTop(command, io)
  addUsageHistory(command, io)
}

type LimitUsage = UsageReply['limits'][number]

function usageView(data: {
  readonly at: string | undefined
  readonly regions: UsageReply['regions'] | undefined
  readonly limits: readonly LimitUsage[]
}): View {
  const { limits } = data
  const rows = limits.flatMap((limit) =>
    limit.windows.slice(0, WINDOWS_SHOWN).flatMap((window) => {
      const head = [nameOf(limit), `${window.startsAt}${window.isComplete ? '' : ' (going on)'}`]
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
  return {
    data,
    headers: ['limit', 'window from', 'region', '>admitted', '>denied', '>of capacity'],
    rows,
    names: limits.map(nameOf),
  }
}

function nameOf({ domain, policy, limit }: LimitUsage): string {
  return `${domain}/${policy}/${limit}`
}
