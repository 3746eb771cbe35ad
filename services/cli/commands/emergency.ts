/** What an operator does at 3 a.m.: one command each, and each ends by itself. */
import type { Command } from 'commander'
import { z } from 'zod'
import {
  type EmergencyReply,
  emergencyBegunSchema,
  emergencyListSchema,
} from '../../../shared/protocol/emergency.ts'
import { parseReply } from '../admin-client.ts'
import { durationSeconds, spanOf } from '../durations.ts'
import { CliError, EXIT } from '../errors.ts'
import type { Io } from '../io.ts'
import { outputFlags, show, type View, withOutput, withWatch } from '../output.ts'
import { parsePolicyId, policyPath } from '../policy-client.ts'
import { reasonHeader } from '../reason.ts'
import { adminOf } from '../settings.ts'
import { grouped } from '../table.ts'
import { adminFlags, positiveNumber, wholeNumber, withAdminFlags, withExamples } from './common.ts'

const listFlags = adminFlags.extend(outputFlags.shape).extend({ domain: z.string().optional() })
const beginFlags = adminFlags.extend(outputFlags.shape).extend({
  for: z.number(),
  reason: z.string(),
  limit: z.string().optional(),
  burst: z.number().optional(),
  split: z.string().optional(),
})
const reasonFlags = adminFlags.extend({ reason: z.string() })

/** Adds block, allow, limit, freeze, pin, reset and emergency. */
export function addEmergencyCommands(program: Command, io: Io): void {
  addTenantCommands(program, io)
  addLimitCommands(program, io)
  addLoanCommands(program, io)
  addReset(program, io)
  addEmergency(program, io)
}

function addTenantCommands(program: Command, io: Io): void {
  const kinds = {
    block: 'deny one tenant of a policy everything, for a time',
    allow: 'let one tenant of a policy through whatever it uses, for a time',
  } as const
  for (const [kind, description] of Object.entries(kinds)) {
    const command = program
      .command(kind)
      .description(description)
      .argument('<domain/name>', 'the policy')
      .argument('<value>', "value of the tenant's entry")
      .action((id: string, value: string, options: unknown) =>
        begin(io, kind, id, options, { value }),
      )
    withExamples(withTime(command), [
      `quotaplane ${kind} api/per-tenant mallory --for 1h --reason "scrapes since 02:40"`,
    ])
  }
}

function addLimitCommands(program: Command, io: Io): void {
  const limit = program
    .command('limit')
    .description('change what a limit admits, for a time; the policy stays as it is')
  const multiply = limit
    .command('multiply')
    .description('multiply a limit, with all that tenants have of it')
    .argument('<domain/name>', 'the policy')
    .argument('<factor>', 'such as 2 or 0.5', positiveNumber)
    .option('--limit <limit>', 'which limit, where the policy has several')
    .action((id: string, factor: number, options: unknown) =>
      begin(io, 'multiply', id, options, { factor }),
    )
  withExamples(withTime(multiply), [
    'quotaplane limit multiply api/per-tenant 2 --for 30m --reason "product launch"',
  ])
  const fix = limit
    .command('fix')
    .description('give a limit these numbers; tenants with numbers of their own keep theirs')
    .argument('<domain/name>', 'the policy')
    .argument('<tokens>', 'its capacity; 0 denies all', wholeNumber(0, Number.MAX_SAFE_INTEGER))
    .option('--burst <tokens>', 'of a bucket', wholeNumber(1, Number.MAX_SAFE_INTEGER))
    .option('--limit <limit>', 'which limit, where the policy has several')
    .action((id: string, capacity: number, options: unknown) =>
      begin(io, 'fix', id, options, { capacity }),
    )
  withExamples(withTime(fix), [
    'quotaplane limit fix api/per-tenant 500 --for 1h --reason "database is slow"',
  ])
}

function addLoanCommands(program: Command, io: Io): void {
  const freeze = program
    .command('freeze')
    .description('leave the shares of regions as they are: nothing is lent, nothing given back')
    .argument('<domain/name>', 'the policy')
    .option('--limit <limit>', 'only this limit')
    .action((id: string, options: unknown) => begin(io, 'freeze', id, options, {}))
  withExamples(withTime(freeze), [
    'quotaplane freeze api/per-tenant --for 2h --reason "links between regions flap"',
  ])
  const pin = program
    .command('pin')
    .description('hold each region to its part: loans go home, and none is made')
    .argument('<domain/name>', 'the policy')
    .option('--limit <limit>', 'only this limit')
    .option('--split <region=percent,...>', 'to these parts; left out: to those it has')
    .action((id: string, options: unknown) => begin(io, 'pin', id, options, {}))
  withExamples(withTime(pin), [
    'quotaplane pin api/per-tenant --split us-east-1=90,eu-west-1=10 --for 1h --reason "failover"',
  ])
}

function addReset(program: Command, io: Io): void {
  const command = program
    .command('reset')
    .description('start the counters of a policy, or of one limit, anew in every region')
    .argument('<domain/name>', 'the policy')
    .option('--limit <limit>', 'only this limit')
    .requiredOption('--reason <text>', 'why, for the audit log')
    .action(async (id: string, options: unknown) => {
      const flags = reasonFlags.extend({ limit: z.string().optional() }).parse(options)
      const { domain, name } = parsePolicyId(id)
      const { body } = await adminOf(flags, io).call({
        method: 'POST',
        path: `${policyPath(domain, name)}/reset`,
        body: { ...(flags.limit !== undefined && { limit: flags.limit }) },
        headers: reasonHeader(flags.reason),
      })
      const { revision } = parseReply(z.object({ revision: z.number() }), body)
      if (flags.json) io.out.write(`${JSON.stringify(body)}\n`)
      else io.out.write(`${id} counts from nothing (revision ${revision})\n`)
    })
  withExamples(withAdminFlags(command), [
    'quotaplane reset api/per-tenant --limit per-minute --reason "test traffic counted"',
  ])
}

function addEmergency(program: Command, io: Io): void {
  const emergency = program
    .command('emergency')
    .description('show the emergency actions in force, and end them before their time')
  const list = emergency
    .command('list')
    .description('list the emergency actions in force, and the time that each has left')
    .option('--domain <domain>', 'only those of one domain')
    .action(async (options: unknown) => {
      const flags = listFlags.parse(options)
      const client = adminOf(flags, io)
      const query = flags.domain === undefined ? '' : `&domain=${encodeURIComponent(flags.domain)}`
      await show(io, flags, async () => {
        const path = `/v1/emergency-actions?limit=100${query}`
        const pages = await client.readPages(path, emergencyListSchema)
        return actionsView(pages.flatMap(({ items }) => items))
      })
    })
  withExamples(withWatch(withOutput(withAdminFlags(list))), [
    'quotaplane emergency list',
    'quotaplane emergency list -o name | xargs -n 1 quotaplane emergency end --reason "all clear"',
  ])
  const end = emergency
    .command('end')
    .description('end an emergency action before its time')
    .argument('<id>', 'as emergency list shows it', wholeNumber(1, Number.MAX_SAFE_INTEGER))
    .requiredOption('--reason <text>', 'why, for the audit log')
    .option('--domain <domain>', 'its domain, for a token that is limited to some')
    .action(async (id: number, options: unknown) => {
      const flags = reasonFlags.extend({ domain: z.string().optional() }).parse(options)
      const query = flags.domain === undefined ? '' : `?domain=${encodeURIComponent(flags.domain)}`
      const path = `/v1/emergency-actions/${id}${query}`
      await adminOf(flags, io).call({ method: 'DELETE', path, headers: reasonHeader(flags.reason) })
      io.out.write(flags.json ? `${JSON.stringify({ ended: id })}\n` : `${id} has ended\n`)
    })
  withExamples(withAdminFlags(end), ['quotaplane emergency end 3 --reason "all clear"'])
}

/** Adds --for and --reason, which every action needs, and the flags of all commands. */
function withTime(command: Command): Command {
  command
    .requiredOption('--for <time>', 'how long, such as 90s, 15m, 2h or 1d', durationSeconds)
    .requiredOption('--reason <text>', 'why, for whoever finds it in force')
  return withOutput(withAdminFlags(command))
}

async function begin(
  io: Io,
  kind: string,
  id: string,
  options: unknown,
  what: Readonly<Record<string, unknown>>,
): Promise<void> {
  const flags = beginFlags.parse(options)
  const { domain, name: policy } = parsePolicyId(id)
  const { limit, burst, reason } = flags
  const body = {
    kind,
    domain,
    policy,
    ...what,
    ...(limit !== undefined && { limit }),
    ...(burst !== undefined && { burst }),
    ...(flags.split !== undefined && { split: splitOf(flags.split) }),
    reason,
    ttlSeconds: flags.for,
  }
  const answer = await adminOf(flags, io).call({
    method: 'POST',
    path: '/v1/emergency-actions',
    body,
  })
  const begun = parseReply(emergencyBegunSchema, answer.body)
  const watched = `quotaplane rollout status ${begun.revision} --watch`
  await show(io, { ...flags, watch: false }, () => ({
    ...actionsView([begun]),
    data: begun,
    notes: [`it ends by itself; to see it in force everywhere: ${watched}`],
  }))
}

function splitOf(text: string): Readonly<Record<string, number>> {
  const parts = text.split(',').map((part) => /^([^=]+)=(\d+(?:\.\d+)?)$/.exec(part.trim()))
  if (parts.some((part) => part === null)) {
    const message = `a split is given as region=percent,region=percent, not "${text}"`
    throw new CliError(message, EXIT.usage)
  }
  return Object.fromEntries(parts.map((part) => [part?.[1] ?? '', Number(part?.[2])]))
}

function actionsView(actions: readonly EmergencyReply[]): View {
  return {
    data: { actions },
    headers: ['>id', 'action', 'policy', 'what', 'left', 'by', 'reason'],
    rows: actions.map((action) => [
      String(action.id),
      action.kind,
      `${action.domain}/${action.policy}`,
      whatOf(action),
      spanOf(action.remainingSeconds),
      action.begunBy,
      action.reason,
    ]),
    names: actions.map(({ id }) => String(id)),
  }
}

/** An action in one line. */
export function actionLine(action: EmergencyReply): string {
  const { id, kind, remainingSeconds, begunBy, reason } = action
  return `emergency action ${id} is in force for ${spanOf(remainingSeconds)}: ${kind} ${whatOf(action)} (${begunBy}: ${reason})`
}

function whatOf({ value, limit, factor, capacity, burst, split }: EmergencyReply): string {
  const parts = Object.entries(split ?? {}).map(([region, percent]) => `${region} ${percent} %`)
  const numbers = [
    ...(factor === undefined ? [] : [`x ${factor}`]),
    ...(capacity === undefined ? [] : [grouped(capacity)]),
    ...(burst === undefined || burst === capacity ? [] : [`burst ${grouped(burst)}`]),
    ...(parts.length === 0 ? [] : [parts.join(', ')]),
  ]
  return [value ?? limit ?? 'every limit', ...numbers].join(' ')
}
