/** What an operator does at 3 a.m.: one command each, and each ends by itself. */
import type { Command } from 'commander'
import { z } from 'zod'
import {
  EMERGENCY_TTL_SECONDS_MAX,
  type EmergencyReply,
  emergencyBegunSchema,
  emergencyListSchema,
} from '../../../shared/protocol/emergency.ts'
import { parseReply } from '../admin-client.ts'
import { ofDomain, parsePolicyId, policyPath, splitOf } from '../arguments.ts'
import { durationWithin, spanOf } from '../durations.ts'
import { CliError, EXIT } from '../errors.ts'
import type { Io } from '../io.ts'
import { outputFlags, show, type View, withOutput, withWatch } from '../output.ts'
import { adminOf } from '../settings.ts'
import { grouped, visible } from '../table.ts'
import {
  adminFlags,
  positiveNumber,
  wholeNumber,
  withAdminFlags,
  withExamples,
  withNeededReason,
  writeFlags,
} from './common.ts'
import { carryOut, tellDone } from './plan.ts'

const listFlags = adminFlags.extend(outputFlags.shape).extend({ domain: z.string().optional() })
const neededReason = writeFlags.extend({ reason: z.string() })
const beginFlags = neededReason.extend(outputFlags.shape).extend({
  for: z.number(),
  limit: z.string().optional(),
  burst: z.number().optional(),
  split: z.record(z.string(), z.number()).optional(),
})

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
    .option('--split <region=percent,...>', 'to these parts; left out: to those it has', splitOf)
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
    .argument('[value]', 'not for a reset: one tenant is helped otherwise, see below')
    .option('--limit <limit>', 'only this limit')
    .action(async (id: string, value: string | undefined, options: unknown) => {
      if (value !== undefined) throw new CliError(oneTenant(id, value), EXIT.usage)
      const flags = neededReason.extend({ limit: z.string().optional() }).parse(options)
      const path = `${policyPath(parsePolicyId(id))}/reset`
      const body = { ...(flags.limit !== undefined && { limit: flags.limit }) }
      const request = { method: 'POST', path, body } as const
      await carryOut(adminOf(flags, io), request, flags, io, (reset) => {
        const { revision } = parseReply(z.object({ revision: z.number() }), reset)
        tellDone(io, flags, reset, `${id} counts from nothing (revision ${revision})`)
      })
    })
  command.addHelpText('after', `\n${oneTenant('api/per-tenant', 'acme')}`)
  withExamples(withNeededReason(command), [
    'quotaplane reset api/per-tenant --dry-run --reason "see what would start anew"',
    'quotaplane reset api/per-tenant --limit per-minute --reason "test traffic counted"',
  ])
}

/** What to do instead, for somebody who wants to reset the counters of one tenant. */
function oneTenant(id: string, value: string): string {
  return [
    'Counters of one tenant are not reset alone: records that come late would undo it. Instead:',
    `  let it through:          quotaplane allow ${id} ${value} --for 15m --reason "…"`,
    `  or give it as much more: quotaplane override set ${id} ${value} --capacity LIMIT=TOKENS --expires TIME`,
    'TOKENS is the number of the limit and what it has spent (quotaplane explain), TIME when the window ends. Windows of a day and more have no numbers of single tenants: there, let it through. docs/adr/0016-no-reset-of-one-key.md says why.',
  ].join('\n')
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
      await show(io, flags, async () => {
        const path = ofDomain('/v1/emergency-actions?limit=100', flags)
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
    .option('--domain <domain>', 'its domain, for a token that is limited to some')
    .action(async (id: number, options: unknown) => {
      const flags = neededReason.extend({ domain: z.string().optional() }).parse(options)
      const path = ofDomain(`/v1/emergency-actions/${id}`, flags)
      const request = { method: 'DELETE', path } as const
      await carryOut(adminOf(flags, io), request, flags, io, () =>
        tellDone(io, flags, { ended: id }, `${id} has ended`),
      )
    })
  withExamples(withNeededReason(end), ['quotaplane emergency end 3 --reason "all clear"'])
}

/** Adds --for and --reason, which every action needs, and the flags of all commands that change something. */
function withTime(command: Command): Command {
  command.requiredOption(
    '--for <time>',
    'how long, such as 90s, 15m, 2h or 1d; at most 7d',
    durationWithin(EMERGENCY_TTL_SECONDS_MAX),
  )
  return withOutput(withNeededReason(command))
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
    ...(flags.split !== undefined && { split: flags.split }),
    reason,
    ttlSeconds: flags.for,
  }
  const request = { method: 'POST', path: '/v1/emergency-actions', body } as const
  await carryOut(adminOf(flags, io), request, flags, io, async (reply) => {
    const begun = parseReply(emergencyBegunSchema, reply)
    const watched = `quotaplane rollout status ${begun.revision} --watch`
    await show(io, { ...flags, watch: false }, () => ({
      ...actionsView([begun]),
      data: begun,
      notes: [`it ends by itself; to see it in force everywhere: ${watched}`],
    }))
  })
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
  return `emergency action ${id} is in force for ${spanOf(remainingSeconds)}: ${kind} ${visible(`${whatOf(action)} (${begunBy}: ${reason})`)}`
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
