import type { Command } from 'commander'
import { z } from 'zod'
import {
  type RegionReply,
  regionListSchema,
  regionReplySchema,
} from '../../../shared/protocol/admin-replies.ts'
import { REGION_PATTERN } from '../../../shared/protocol/subjects.ts'
import { type AdminClient, parseReply } from '../admin-client.ts'
import { CliError, EXIT } from '../errors.ts'
import type { Io } from '../io.ts'
import { outputFlags, show, withOutput, withWatch } from '../output.ts'
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
import { tellPlan } from './plan.ts'

const listFlags = adminFlags.extend(outputFlags.shape)
const certifyFlags = adminFlags.extend({
  certify: z.boolean().default(false),
  by: z.string().optional(),
  reason: z.string().optional(),
})

/** Adds `quotaplane region …`. */
export function addRegionCommand(program: Command, io: Io): void {
  const region = program
    .command('region')
    .description('show the regions of the plane; register, drain, resume and remove them')
  addList(region, io)
  addRegister(region, io)
  addRegionLags(region, io)
  addMove(region, io, 'drain', 'move the part of a region in every limit to the others')
  addMove(region, io, 'resume', 'give a drained region its part back')
  addRemove(region, io)
}

function addList(region: Command, io: Io): void {
  const command = region
    .command('list')
    .description('list the regions, and how each is doing')
    .action(async (options: unknown) => {
      const flags = listFlags.parse(options)
      const client = adminOf(flags, io)
      await show(io, flags, async () => {
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
      })
    })
  withExamples(withWatch(withOutput(withAdminFlags(command))), [
    'quotaplane region list',
    'quotaplane region list --watch',
    'quotaplane region list -o name',
  ])
}

/** How a region does, and what it was asked for if that is not to stay. */
function stateOf({ health, state, move }: RegionReply): string {
  const doing = health.isReporting ? (health.isRecovering ? 'recovering' : 'reporting') : 'silent'
  const left = move === null || move.limitsLeft === 0 ? '' : `, ${move.limitsLeft} limits left`
  return state === 'active' ? doing : `${state}${left} (${doing})`
}

function addRegister(region: Command, io: Io): void {
  const command = region
    .command('register')
    .argument('<region...>', 'names of the regions')
    .description('make regions known to the plane; one that is known already stays as it is')
    .action(async (ids: string[], options: unknown) => {
      const flags = adminFlags.parse(options)
      // Refused here, so that a name that is none leaves nothing half done.
      for (const id of ids) pathOf(id)
      const added = await registerRegions(adminOf(flags, io), ids)
      if (flags.json) printJson(io, { registered: added })
      else
        printLines(
          io,
          ids.map((id) => `${id} ${added.includes(id) ? 'registered' : 'is known'}`),
        )
    })
  withExamples(withAdminFlags(command), [
    'quotaplane region register us-east-1 eu-west-1',
    'quotaplane region register ap-south-1 --json',
  ])
}

function addMove(region: Command, io: Io, name: 'drain' | 'resume', what: string): void {
  const command = region
    .command(name)
    .argument('<region>', 'name of the region')
    .description(what)
    .action(async (id: string, options: unknown) => {
      const flags = writeFlags.parse(options)
      const client = adminOf(flags, io)
      const request = { method: 'POST', path: `${pathOf(id)}/${name}` } as const
      if (flags.dryRun) return await tellPlan(client, request, flags, io)
      const { body } = await client.call(request)
      tell(io, flags, parseReply(regionReplySchema, body))
    })
  withExamples(withWriteFlags(command), [
    `quotaplane region ${name} eu-west-1`,
    `quotaplane region ${name} eu-west-1 --dry-run`,
    `quotaplane region ${name} eu-west-1 --reason "work on the site"`,
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
    .option('--by <who>', 'who certifies that (with --certify)')
    .option('--reason <why>', 'why it is removed (with --certify)')
    .action(async (id: string, options: unknown) => {
      const flags = certifyFlags.parse(options)
      const client = adminOf(flags, io)
      if (flags.certify) await removeLost(io, client, id, flags)
      else await removeDrained(io, client, id, flags.json)
    })
  withExamples(withAdminFlags(command), [
    'quotaplane region remove eu-west-1',
    'quotaplane region remove eu-west-1 --certify --by "Ada, on call" --reason "the site is lost"',
  ])
}

async function removeLost(
  io: Io,
  client: AdminClient,
  id: string,
  { by, reason, json }: z.infer<typeof certifyFlags>,
): Promise<void> {
  if (by === undefined || reason === undefined) {
    throw new CliError('--certify needs --by and --reason: both go to the audit log', EXIT.usage)
  }
  const request = { method: 'POST', path: `${pathOf(id)}/remove` } as const
  const certificate = { certifiedBy: by, reason, nothingInUse: true }
  const { body } = await client.call({ ...request, body: certificate })
  tell(io, { json }, parseReply(regionReplySchema, body))
}

async function removeDrained(
  io: Io,
  client: AdminClient,
  id: string,
  isJson: boolean,
): Promise<void> {
  await client.call({ method: 'DELETE', path: pathOf(id), headers: { 'if-match': '*' } })
  if (isJson) printJson(io, { removed: id })
  else printLines(io, [`${id} removed`])
}

function tell(io: Io, flags: { readonly json: boolean }, region: RegionReply): void {
  if (flags.json) printJson(io, { region })
  else
    printLines(io, [
      `${region.id} is ${stateOf(region)}: quotaplane region list shows how far it is`,
    ])
}

function pathOf(id: string): string {
  if (REGION_PATTERN.test(id)) return `/v1/regions/${id}`
  const message = `"${id}" is not a region name: use lower-case letters, digits and hyphens`
  throw new CliError(message, EXIT.usage)
}
