import type { Command } from 'commander'
import { z } from 'zod'
import {
  type DomainDocument,
  type DomainReply,
  domainListSchema,
  domainReplySchema,
} from '../../../shared/protocol/domains.ts'
import { type AdminClient, parseReply } from '../admin-client.ts'
import { domainOf, labelsOf } from '../arguments.ts'
import { CliError, EXIT } from '../errors.ts'
import type { Io } from '../io.ts'
import { formatOf, outputFlags, show, type View, withOutput, withWatch } from '../output.ts'
import { documentOfDomain } from '../policy-document.ts'
import { type FiledDocuments, readDocuments } from '../policy-files.ts'
import { adminOf } from '../settings.ts'
import { applyAndTell } from './apply.ts'
import { adminFlags, withAdminFlags, withExamples, withWriteFlags, writeFlags } from './common.ts'
import { carryOut, tellDone } from './plan.ts'

const getFlags = adminFlags.extend(outputFlags.shape)
const labels = z.record(z.string(), z.string()).optional()
const listFlags = getFlags.extend({ labels })
const applyFlags = writeFlags.extend({
  file: z.string().optional(),
  description: z.string().optional(),
  labels,
})

/** Adds `quotaplane domain …`. */
export function addDomainCommand(program: Command, io: Io): void {
  const domain = program
    .command('domain')
    .description(
      'say what domains are for and whose they are; a domain comes with its first policy',
    )
  addList(domain, io)
  addGet(domain, io)
  addApply(domain, io)
  addDelete(domain, io)
}

function addList(domain: Command, io: Io): void {
  const command = domain
    .command('list')
    .description('list the domains, and how many policies each has')
    .option(
      '-l, --labels <key=value>',
      'only those with all of these: key=value,key=value',
      labelsOf,
    )
    .action(async (options: unknown) => {
      const flags = listFlags.parse(options)
      const client = adminOf(flags, io)
      const wanted = Object.entries(flags.labels ?? {}).map((pair) => pair.join('='))
      const query = wanted.length === 0 ? '' : `&labels=${encodeURIComponent(wanted.join(','))}`
      const read = async (): Promise<View> => {
        const pages = await client.readPages(`/v1/domains?limit=100${query}`, domainListSchema)
        return listView(pages.flatMap(({ items }) => items))
      }
      await show(io, flags, read, { live: { client, events: ['revisions'] } })
    })
  withExamples(withWatch(withOutput(withAdminFlags(command))), [
    'quotaplane domain list',
    'quotaplane domain list -l team=search -o name',
  ])
}

function addGet(domain: Command, io: Io): void {
  const command = domain
    .command('get')
    .description('print what is said of a domain as YAML that apply takes')
    .argument('<domain>', 'the domain')
    .action(async (name: string, options: unknown) => {
      const flags = getFlags.parse(options)
      const client = adminOf(flags, io)
      const read = async (): Promise<View> => {
        const found = await readDomain(client, domainOf(name))
        const isJson = formatOf(flags, io, 'yaml') === 'json'
        return { ...listView([found]), data: isJson ? found : documentOfDomain(found) }
      }
      await show(io, flags, read, { usual: 'yaml' })
    })
  withExamples(withOutput(withAdminFlags(command)), [
    'quotaplane domain get api',
    'quotaplane domain get api -o table',
  ])
}

function addApply(domain: Command, io: Io): void {
  const command = domain
    .command('apply')
    .description('say what a domain is for and whose it is')
    .argument('[domain]', 'the domain, which need not have policies yet')
    .option('--description <text>', 'whose it is, and who to ask; left out: as it is')
    .option('-l, --labels <key=value>', 'in place of its labels: key=value,key=value', labelsOf)
    .option('-f, --file <file>', 'or YAML or JSON with kind: domain; - reads standard input')
    .action(async (name: string | undefined, options: unknown) => {
      const { description, labels: given, file, ...flags } = applyFlags.parse(options)
      const client = adminOf(flags, io)
      const said = {
        ...(description !== undefined && { description }),
        ...(given !== undefined && { labels: given }),
      }
      const documents = await documentsOf({ name, file, said }, client, io)
      await applyAndTell({ client, documents }, flags, io)
    })
  withExamples(withWriteFlags(command), [
    'quotaplane domain apply api --description "Search team, #search-oncall" --labels team=search',
    'quotaplane domain get api > api.yaml && $EDITOR api.yaml && quotaplane domain apply -f api.yaml',
  ])
}

interface Wanted {
  readonly name: string | undefined
  readonly file: string | undefined
  readonly said: Partial<DomainDocument>
}

/** What is not said stays as it is, unless somebody else changes it in between. */
async function documentsOf(
  { name, file, said }: Wanted,
  client: AdminClient,
  io: Io,
): Promise<FiledDocuments> {
  const isSaid = Object.keys(said).length > 0
  if (file !== undefined) {
    if (name === undefined && !isSaid) return await readDocuments(file, io)
    throw new CliError('give -f FILE alone, or a domain with what to say of it', EXIT.usage)
  }
  if (name === undefined || !isSaid) {
    const message = 'name a domain and give --description or --labels, or give -f FILE'
    throw new CliError(message, EXIT.usage)
  }
  const domain = domainOf(name)
  const path = pathOf(domain)
  const found = await client.call({ method: 'GET', path, accepts: [404] })
  const before = found.status === 404 ? null : parseReply(domainReplySchema, found.body)
  const { description = '', labels: present = {} } = before ?? {}
  const document: DomainDocument = {
    domain,
    description,
    labels: present,
    ...said,
    ...(before !== null && { ifMatch: `"${before.revision}"` }),
  }
  return { policies: [], domains: [{ document, where: domain, locate: () => domain }] }
}

function addDelete(domain: Command, io: Io): void {
  const command = domain
    .command('delete')
    .description('remove a domain that has no policies')
    .argument('<domain>', 'the domain')
    .action(async (name: string, options: unknown) => {
      const flags = writeFlags.parse(options)
      const client = adminOf(flags, io)
      const { domain: found, revision } = await readDomain(client, domainOf(name))
      const headers = { 'if-match': `"${revision}"` }
      await carryOut(client, { method: 'DELETE', path: pathOf(found), headers }, flags, io, () =>
        tellDone(io, flags, { deleted: found }, `domain ${found} deleted`),
      )
    })
  withExamples(withWriteFlags(command), [
    'quotaplane domain delete staging',
    'quotaplane domain delete staging --dry-run',
  ])
}

async function readDomain(client: AdminClient, domain: string): Promise<DomainReply> {
  const { body } = await client.call({ method: 'GET', path: pathOf(domain) })
  return parseReply(domainReplySchema, body)
}

function pathOf(domain: string): string {
  return `/v1/domains/${encodeURIComponent(domain)}`
}

function listView(domains: readonly DomainReply[]): View {
  return {
    data: { domains },
    headers: ['domain', '>policies', 'labels', 'description'],
    rows: domains.map(({ domain, policyCount, labels: given, description }) => [
      domain,
      String(policyCount),
      Object.entries(given)
        .map((pair) => pair.join('='))
        .join(','),
      description.split('\n')[0] ?? '',
    ]),
    names: domains.map(({ domain }) => domain),
  }
}
