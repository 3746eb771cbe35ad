import { type Command, Option } from 'commander'
import { z } from 'zod'
import {
  RESOLUTIONS,
  TOP_BY,
  type UsageHistoryReply,
  type UsageTopReply,
  usageHistoryReplySchema,
  usageTopReplySchema,
} from '../../../shared/protocol/reading-replies.ts'
import { parseReply } from '../admin-client.ts'
import { parsePolicyId } from '../arguments.ts'
import type { Io } from '../io.ts'
import { outputFlags, show, type View, withOutput, withWatch } from '../output.ts'
import { adminOf } from '../settings.ts'
import { grouped } from '../table.ts'
import { adminFlags, wholeNumber, withAdminFlags, withExamples } from './common.ts'

const TOP_DEFAULT = 20
const TOP_MAX = 100
const SECONDS_MAX = 10_800

const topFlags = adminFlags.extend(outputFlags.shape).extend({
  by: z.enum(TOP_BY).default('use'),
  policy: z.string().optional(),
  domain: z.string().optional(),
  region: z.string().optional(),
  seconds: z.number().optional(),
  lines: z.number().default(TOP_DEFAULT),
})
const historyFlags = adminFlags.extend(outputFlags.shape).extend({
  resolution: z.enum(RESOLUTIONS).default('minute'),
  limitName: z.string().optional(),
  key: z.string().optional(),
  region: z.string().optional(),
  from: z.string().optional(),
  to: z.string().optional(),
})

/** Adds `quotaplane usage top`. */
export function addUsageTop(usage: Command, io: Io): void {
  const command = usage
    .command('top')
    .description('show the hot keys with most use, denials or unmet demand')
    .addOption(new Option('--by <what>', 'what to rank by').choices(TOP_BY))
    .option('--policy <domain/name>', 'only keys of one policy')
    .option('--domain <domain>', 'only keys of one domain')
    .option('--region <region>', 'only what one region counted')
    .option('--seconds <n>', 'how far back (default: a minute)', wholeNumber(1, SECONDS_MAX))
    .option('-n, --lines <n>', 'how many', wholeNumber(1, TOP_MAX))
    .action(async (options: unknown) => {
      const flags = topFlags.parse(options)
      const client = adminOf(flags, io)
      const policy = flags.policy === undefined ? undefined : parsePolicyId(flags.policy)
      const domain = policy?.domain ?? flags.domain
      const query = queryOf({
        by: flags.by,
        domain,
        policy: policy?.name,
        region: flags.region,
        seconds: flags.seconds,
        limit: flags.lines,
      })
      const read = async (): Promise<View> => {
        const { body } = await client.call({ method: 'GET', path: `/v1/usage/top?${query}` })
        return topView(parseReply(usageTopReplySchema, body))
      }
      await show(io, flags, read, { live: { client, events: ['usage', 'regions'], domain } })
    })
  withExamples(withWatch(withOutput(withAdminFlags(command))), [
    'quotaplane usage top --by denial',
    'quotaplane usage top --by unmet --policy api/per-tenant --watch',
    'quotaplane usage top --region eu-west-1 --seconds 3600 -o json',
  ])
}

function topView({ next: _next, ...data }: UsageTopReply): View {
  return {
    data,
    headers: ['limit', 'key', '>admitted', '>denied', '>unmet', 'most in', ''],
    rows: data.items.map(({ domain, policy, limit, key, total, regions, isHungry }) => {
      const amount = data.by === 'use' ? 'admitted' : data.by === 'denial' ? 'denied' : 'unmet'
      const [most] = [...regions].sort((one, other) => other[amount] - one[amount])
      return [
        `${domain}/${policy}/${limit}`,
        key,
        grouped(total.admitted),
        grouped(total.denied),
        grouped(total.unmet),
        most?.region ?? '',
        isHungry ? '(short)' : '',
      ]
    }),
    names: data.items.map(({ key }) => key),
  }
}

/** Adds `quotaplane usage history`. */
export function addUsageHistory(usage: Command, io: Io): void {
  const command = usage
    .command('history')
    .description('show what a policy, or one key of it, admitted and denied over time')
    .argument('<domain/name>', 'the policy')
    .addOption(new Option('--resolution <span>', 'length of a row').choices(RESOLUTIONS))
    .option('--limit-name <limit>', 'only one limit of the policy')
    .option('--key <key>', 'only one hot key, as `usage top` names it')
    .option('--region <region>', 'only what one region counted')
    .option('--from <time>', 'from then on, such as 2027-01-31T00:00:00Z (default: an hour ago)')
    .option('--to <time>', 'until then (default: now)')
    .action(async (id: string, options: unknown) => {
      const flags = historyFlags.parse(options)
      const client = adminOf(flags, io)
      const { domain, name: policy } = parsePolicyId(id)
      const { resolution, limitName, key, region, from, to } = flags
      const query = queryOf({ domain, policy, resolution, limitName, key, region, from, to })
      const read = async (): Promise<View> =>
        historyView(await client.readPages(`/v1/usage/history?${query}`, usageHistoryReplySchema))
      await show(io, flags, read, { live: { client, events: ['usage', 'regions'], domain } })
    })
  withExamples(withWatch(withOutput(withAdminFlags(command))), [
    'quotaplane usage history api/per-tenant',
    'quotaplane usage history api/per-tenant --resolution second --watch',
    'quotaplane usage history api/per-tenant --key tenant=acme -o json',
  ])
}

function historyView(pages: readonly UsageHistoryReply[]): View {
  const items = pages.flatMap((page) => page.items)
  const isPartial = pages.some((page) => page.isPartial)
  const first = pages[0]
  return {
    data: {
      at: first?.at,
      resolution: first?.resolution,
      key: first?.key ?? null,
      regions: first?.regions,
      isPartial,
      items,
    },
    headers: ['from', 'limit', 'region', '>admitted', '>denied', '>unmet'],
    rows: items.flatMap(({ startsAt, limit, total, regions, isRunning }) => {
      const head = [`${startsAt}${isRunning ? ' (going on)' : ''}`, limit]
      return [...regions, { region: 'together', ...total }].map((one) => [
        ...head,
        one.region,
        grouped(one.admitted),
        grouped(one.denied),
        grouped(one.unmet),
      ])
    }),
    names: [...new Set(items.map(({ startsAt }) => startsAt))],
    notes: isPartial ? ['Postgres does not answer: what it holds is missing.'] : [],
  }
}

function queryOf(given: Readonly<Record<string, string | number | undefined>>): string {
  const query = new URLSearchParams()
  for (const [name, value] of Object.entries(given)) {
    if (value !== undefined) query.set(name, String(value))
  }
  return query.toString()
}
