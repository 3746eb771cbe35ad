import type { Command } from 'commander'
import { z } from 'zod'
import { type PolicyReply, policyListSchema } from '../../../shared/protocol/admin-replies.ts'
import { documentOf } from '../../../shared/protocol/policy-document.ts'
import { ofDomain, type PolicyId, parsePolicyId, policyPath } from '../arguments.ts'
import { CliError, EXIT } from '../errors.ts'
import { type Io, say } from '../io.ts'
import { formatOf, outputFlags, show, type View, withOutput, withWatch } from '../output.ts'
import { parsePolicy } from '../policy-client.ts'
import { readDocuments, readPolicies } from '../policy-files.ts'
import { adminOf } from '../settings.ts'
import { grouped } from '../table.ts'
import { applyAndTell } from './apply.ts'
import {
  adminFlags,
  printJson,
  printLines,
  withAdminFlags,
  withExamples,
  withWriteFlags,
  writeFlags,
} from './common.ts'
import { actionLine } from './emergency.ts'
import { carryOut } from './plan.ts'

const fileFlags = writeFlags.extend({ file: z.string() })
const getFlags = adminFlags.extend(outputFlags.shape)
const listFlags = getFlags.extend({ domain: z.string().optional() })
const FILE_HELP = 'YAML or JSON with one or more policies; - reads standard input'

/** Adds `quotaplane policy …`. */
export function addPolicyCommand(program: Command, io: Io): void {
  const policy = program.command('policy').description('create, change, show and remove policies')
  addApply(policy, io)
  addGet(policy, io)
  addList(policy, io)
  addDelete(policy, io)
}

function addApply(policy: Command, io: Io): void {
  const command = policy
    .command('apply')
    .description('create each policy of a file, or change it to what the file says, all or none')
    .requiredOption('-f, --file <file>', FILE_HELP)
    .action(async (options: unknown) => {
      const { file, ...flags } = fileFlags.parse(options)
      const request = { client: adminOf(flags, io), documents: await readDocuments(file, io) }
      await applyAndTell(request, flags, io)
    })
  withExamples(withWriteFlags(command), [
    'quotaplane policy apply -f limits.yaml',
    'quotaplane policy get api/per-tenant | sed "s/capacity: .*/capacity: 500/" | quotaplane policy apply -f -',
  ])
}

function addGet(policy: Command, io: Io): void {
  const command = policy
    .command('get')
    .description('print a policy as YAML that apply takes')
    .argument('<domain/name>', 'the policy')
    .action(async (id: string, options: unknown) => {
      const flags = getFlags.parse(options)
      const path = policyPath(parsePolicyId(id))
      const client = adminOf(flags, io)
      await show(
        io,
        flags,
        async () => {
          const { body } = await client.call({ method: 'GET', path })
          const policy = parsePolicy(body)
          // Beside the YAML, which says what the policy is and not what is in force for a time.
          for (const action of policy.emergency) say(io.err, actionLine(action))
          // YAML is what apply takes; JSON is all that admin says.
          const isJson = formatOf(flags, io, 'yaml') === 'json'
          return { ...listView([policy]), data: isJson ? body : documentOf(policy) }
        },
        { usual: 'yaml' },
      )
    })
  withExamples(withOutput(withAdminFlags(command)), [
    'quotaplane policy get api/per-tenant',
    'quotaplane policy get api/per-tenant -o table',
  ])
}

function addList(policy: Command, io: Io): void {
  const command = policy
    .command('list')
    .description('list the policies of the plane')
    .option('--domain <domain>', 'only those of one domain')
    .action(async (options: unknown) => {
      const flags = listFlags.parse(options)
      const client = adminOf(flags, io)
      const read = async (): Promise<View> => {
        const pages = await client.readPages(
          ofDomain('/v1/policies?limit=100', flags),
          policyListSchema,
        )
        return listView(pages.flatMap((page) => page.items))
      }
      const { domain } = flags
      await show(io, flags, read, { live: { client, events: ['revisions'], domain } })
    })
  withExamples(withWatch(withOutput(withAdminFlags(command))), [
    'quotaplane policy list',
    'quotaplane policy list --domain api -o name',
  ])
}

function addDelete(policy: Command, io: Io): void {
  const command = policy
    .command('delete')
    .description('remove a policy, or every policy that a file names')
    .argument('[domain/name]', 'the policy')
    .option('-f, --file <file>', FILE_HELP)
    .action(async (id: string | undefined, options: unknown) => {
      const flags = fileFlags.partial({ file: true }).parse(options)
      const targets = await deletionTargets(id, flags.file, io)
      const client = adminOf(flags, io)
      const deleted: string[] = []
      for (const { domain, name } of targets) {
        const path = policyPath({ domain, name })
        const found = await client.call({ method: 'GET', path })
        const { revision } = parsePolicy(found.body)
        const headers = { 'if-match': `"${revision}"` }
        await carryOut(client, { method: 'DELETE', path, headers }, flags, io, () => {
          deleted.push(`${domain}/${name}`)
          if (!flags.json) printLines(io, [`${domain}/${name} deleted`])
        })
      }
      if (flags.json && !flags.dryRun) printJson(io, { deleted })
    })
  withExamples(withWriteFlags(command), [
    'quotaplane policy delete api/per-tenant',
    'quotaplane policy delete -f limits.yaml',
  ])
}

async function deletionTargets(
  id: string | undefined,
  file: string | undefined,
  io: Io,
): Promise<readonly PolicyId[]> {
  if ((id === undefined) === (file === undefined)) {
    throw new CliError('name one policy as domain/name, or give -f FILE', EXIT.usage)
  }
  if (id !== undefined) return [parsePolicyId(id)]
  return (await readPolicies(file ?? '-', io)).map(({ document }) => document)
}

function listView(policies: readonly PolicyReply[]): View {
  const rows = policies.flatMap((policy) =>
    policy.limits.map((limit) => [
      `${policy.domain}/${policy.name}`,
      policy.match
        .map(({ key, value }) => (value === undefined ? key : `${key}=${value}`))
        .join(' '),
      limit.name,
      limit.algorithm,
      `${grouped(limit.capacity)} ${spanOf(limit)}`,
      Object.entries(limit.split)
        .map(([region, weight]) => `${region} ${weight}`)
        .join(', '),
      String(policy.revision),
    ]),
  )
  return {
    data: { policies },
    headers: ['policy', 'match', 'limit', 'algorithm', 'capacity', 'split', '>revision'],
    rows,
    names: policies.map(({ domain, name }) => `${domain}/${name}`),
    notes: policies.flatMap(({ domain, name, emergency }) =>
      emergency.map((action) => `${domain}/${name}: ${actionLine(action)}`),
    ),
  }
}

function spanOf({ windowMs, calendar, holdMs }: PolicyReply['limits'][number]): string {
  if (calendar !== undefined) return `per ${calendar.unit} in ${calendar.timeZone}`
  if (holdMs !== undefined) return `at once, for ${grouped(holdMs)} ms`
  return `per ${grouped(windowMs ?? 0)} ms`
}
