import type { Command } from 'commander'
import { z } from 'zod'
import {
  type RegionReply,
  regionListSchema,
  regionReplySchema,
} from '../../../shared/protocol/admin-replies.ts'
import { EMERGENCY_TTL_SECONDS_MAX } from '../../../shared/protocol/emergency.ts'
import { type AdminClient, parseReply } from '../admin-client.ts'
import { regionPath } from '../arguments.ts'
import { durationWithin } from '../durations.ts'
import { CliError, EXIT } from '../errors.ts'
import type { Io } from '../io.ts'
import { outputFlags, show, type View, withOutput, withWatch } from '../output.ts'
import { registerRegions } from '../plane/register.ts'
import { adminOf } from '../settings.ts'
import {
  adminFlags,
  printJson,
  printLines,
  withAdminFlags,
  withExamples,
  withWriteFlags,
  writeFlags,
} from './common.ts'
import { addRegionLags } from './lags.ts'
import { carryOut, tellDone } from './plan.ts'

const listFlags = adminFlags.extend(outputFlags.shape)
const drainFlags = writeFlags.extend({ for: z.number().optional() })
const removeFlags = writeFlags.extend({
  certify: z.boolean().default(false),
  by: z.string().optional(),
})

/** Adds `quotaplane region …`. */
export function addRegionCommand(program: Command, io: Io): void {
  const region = program
    .command('region')
    .description('show the regions of the plane; register, drain, resume and remove them')
  addList(region, io)
  addRegister(region, io)
  addRegionLags(region, io)
  addDrain(region, io)
  addResume(region, io)
  addRemove(region, io)
}

function addList(region: Command, io: Io): void {
  const command = region
    .command('list')
    .description('list the regions, and how each is doing')
    .action(async (options: unknown) => {
      const flags = listFlags.parse(options)
      const client = adminOf(flags, io)
      const read = async (): Promise<View> => {
        const pages = await client.readPages('/v1/regions', regionListSchema)
        const regions = pages.flatMap((page) => page.items)
        return {
          data: { regions },
          headers: ['region', 'state', 'last heard', '>applied revision'],
          rows: regions.map((one) => [
            one.id,
            stateOf(one),
            one.health.ageMs === null ? 'never' : `${(one.health.ageMs / 1_000).toFixed(1)} s ago`,
            String(one.health.appliedRevision ?? '-'),
          ]),
          names: regions.map(({ id }) => id),
        }
      }
      await show(io, flags, read, { live: { client, events: ['regions', 'revisions'] } })
    })
  withExamples(withWatch(withOutput(withAdminFlags(command))), [
    'quotaplane region list',
    'quotaplane region list --watch',
    'quotaplane region list -o name',
  ])
}

/** How a region does, and what it was asked for if that is not to stay. */
function stateOf({ health, state, move, resumesAt }: RegionReply): string {
  const doing = health.isReporting ? (health.isRecovering ? 'recovering' : 'reporting') : 'silent'
  const left = move === null || move.limitsLeft === 0 ? '' : `, ${move.limitsLeft} limits left`
  const end = resumesAt === undefined ? '' : ` until ${resumesAt}`
  return state === 'active' ? doing : `${state}${end}${left} (${doing})`
}

function addRegister(region: Command, io: Io): void {
  const command = region
    .command('register')
    .argument('<region...>', 'names of the regions')
    .description('make regions known to the plane; one that is known already stays as it is')
    .action(async (ids: string[], options: unknown) => {
      const flags = writeFlags.parse(options)
      // Refused here, so that a name that is none leaves nothing half done.
      for (const id of ids) regionPath(id)
      const client = adminOf(flags, io)
      if (flags.dryRun) return await planRegistrations(client, ids, flags, io)
      const added = await registerRegions(client, ids)
      if (flags.json) printJson(io, { registered: added })
      else
        printLines(
          io,
          ids.map((id) => `${id} ${added.includes(id) ? 'registered' : 'is known'}`),
        )
    })
  withExamples(withWriteFlags(command), [
    'quotaplane region register us-east-1 eu-west-1',
    'quotaplane region register ap-south-1 --reason "new site" --json',
  ])
}

async function planRegistrations(
  client: AdminClient,
  ids: readonly string[],
  flags: z.infer<typeof writeFlags>,
  io: Io,
): Promise<void> {
  const pages = await client.readPages('/v1/regions', regionListSchema)
  const known = new Set(pages.flatMap(({ items }) => items.map(({ id }) => id)))
  for (const id of ids) {
    const request = { method: 'PUT', path: regionPath(id), body: {} } as const
    if (!known.has(id)) await carryOut(client, request, flags, io, () => {})
    else if (!flags.json) printLines(io, [`${id} is known`])
  }
}

function addDrain(region: Command, io: Io): void {
  const command = region
    .command('drain')
    .argument('<region>', 'name of the region')
    .description('move the part of a region in every limit to the others')
    .option(
      '--for <time>',
      'it resumes by itself after this time, such as 90s, 15m, 2h or 1d, at most 7d; left out: not before it is told to',
      durationWithin(EMERGENCY_TTL_SECONDS_MAX),
    )
    .action(async (id: string, options: unknown) => {
      const flags = drainFlags.parse(options)
      const body = flags.for === undefined ? {} : { body: { ttlSeconds: flags.for } }
      const request = { method: 'POST', path: `${regionPath(id)}/drain`, ...body } as const
      await carryOut(adminOf(flags, io), request, flags, io, (reply) => {
        const drained = parseReply(regionReplySchema, reply)
        tellDone(io, flags, { region: drained }, drainLines(drained))
      })
    })
  withExamples(withWriteFlags(command), [
    'quotaplane region drain eu-west-1 --for 2h --reason "work on the site"',
    'quotaplane region drain eu-west-1 --for 2h --dry-run',
    'quotaplane region drain eu-west-1 --reason "moving to eu-west-2"',
  ])
}

/** What somebody must know who drains a region: how it ends. */
function drainLines(region: RegionReply): string {
  const { id, resumesAt } = region
  const end =
    resumesAt === undefined
      ? `it stays so until quotaplane region resume ${id}; quotaplane region drain ${id} --for 2h lets it resume by itself`
      : `it resumes by itself at ${resumesAt}, or by quotaplane region resume ${id}`
  return `${stateLine(region)}\n${end}`
}

function addResume(region: Command, io: Io): void {
  const command = region
    .command('resume')
    .argument('<region>', 'name of the region')
    .description('give a drained region its part back')
    .action(async (id: string, options: unknown) => {
      const flags = writeFlags.parse(options)
      const request = { method: 'POST', path: `${regionPath(id)}/resume` } as const
      await carryOut(adminOf(flags, io), request, flags, io, (body) => tell(io, flags, body))
    })
  withExamples(withWriteFlags(command), [
    'quotaplane region resume eu-west-1',
    'quotaplane region resume eu-west-1 --dry-run',
    'quotaplane region resume eu-west-1 --reason "work is done"',
  ])
}

function addRemove(region: Command, io: Io): void {
  const command = region
    .command('remove')
    .argument('<region>', 'name of the region')
    .description('remove a region that is drained, or one that is lost and certified to be stopped')
    .option(
      '--certify',
      'it is lost: nothing of it takes traffic or runs, nor will before its Redis is wiped',
    )
    .option('--by <who>', 'who certifies that (with --certify, which needs --reason too)')
    .action(async (id: string, options: unknown) => {
      const flags = removeFlags.parse(options)
      const client = adminOf(flags, io)
      if (flags.certify) {
        const request = { method: 'POST', path: `${regionPath(id)}/remove` } as const
        const body = certificateOf(flags)
        await carryOut(client, { ...request, body }, flags, io, (reply) => tell(io, flags, reply))
        return
      }
      if (flags.by !== undefined) throw new CliError('--by goes with --certify', EXIT.usage)
      const headers = { 'if-match': '*' }
      const request = { method: 'DELETE', path: regionPath(id), headers } as const
      await carryOut(client, request, flags, io, () =>
        tellDone(io, flags, { removed: id }, `${id} removed`),
      )
    })
  withExamples(withWriteFlags(command), [
    'quotaplane region remove eu-west-1 --dry-run',
    'quotaplane region remove eu-west-1 --reason "moved to eu-west-2"',
    'quotaplane region remove eu-west-1 --certify --by "Ada, on call" --reason "the site is lost"',
  ])
}

function certificateOf({ by, reason }: z.infer<typeof removeFlags>): object {
  if (by !== undefined && reason !== undefined) {
    return { certifiedBy: by, reason, nothingInUse: true }
  }
  throw new CliError('--certify needs --by and --reason: both go to the audit log', EXIT.usage)
}

function tell(io: Io, flags: { readonly json: boolean }, body: unknown): void {
  const region = parseReply(regionReplySchema, body)
  tellDone(io, flags, { region }, stateLine(region))
}

function stateLine(region: RegionReply): string {
  return `${region.id} is ${stateOf(region)}: quotaplane region list shows how far it is`
}
