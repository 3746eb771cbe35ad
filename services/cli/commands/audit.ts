import type { Command } from 'commander'
import { z } from 'zod'
import {
  type AuditEntryReply,
  auditEntrySchema,
  auditListSchema,
} from '../../../shared/protocol/admin-replies.ts'
import { type AdminClient, parseReply } from '../admin-client.ts'
import type { Io } from '../io.ts'
import {
  formatOf,
  type OutputFormat,
  outputFlags,
  paused,
  rendered,
  show,
  type View,
  withOutput,
} from '../output.ts'
import { adminOf } from '../settings.ts'
import { adminFlags, wholeNumber, withAdminFlags, withExamples } from './common.ts'

const ENTRIES_DEFAULT = 20
const ENTRIES_MAX = 100

/** How soon a follower sees a change. */
const FOLLOW_INTERVAL_S = 1

const filterFlags = adminFlags.extend({
  actor: z.string().optional(),
  object: z.string().optional(),
  kind: z.string().optional(),
  domain: z.string().optional(),
  since: z.string().optional(),
  until: z.string().optional(),
})
const tailFlags = filterFlags.extend(outputFlags.shape).extend({
  lines: z.number().default(ENTRIES_DEFAULT),
  follow: z.boolean().default(false),
})
const exportFlags = filterFlags.extend({ after: z.number().default(0) })
type Filter = z.infer<typeof filterFlags>

/** Adds `quotaplane audit …`. */
export function addAuditCommand(program: Command, io: Io): void {
  const audit = program.command('audit').description('read the append-only log of changes')
  addTail(audit, io)
  addExport(audit, io)
}

function withFilter(command: Command): Command {
  return command
    .option('--actor <actor>', 'only changes by this one, such as token:ci')
    .option('--object <id>', 'only changes of this: a region, or domain/name of a policy')
    .option('--kind <kind>', 'only changes of this kind of thing, such as policy or token')
    .option('--domain <domain>', 'only changes of policies of one domain')
    .option('--since <time>', 'only changes from then on, such as 2027-01-31T00:00:00Z')
    .option('--until <time>', 'only changes before then')
}

function addTail(audit: Command, io: Io): void {
  const command = audit
    .command('tail')
    .description('show the latest changes, the newest last')
    .option('-n, --lines <n>', 'how many', wholeNumber(1, ENTRIES_MAX))
    .option('-F, --follow', 'go on with each change as it comes, until Ctrl-C')
    .action(async (options: unknown) => {
      const flags = tailFlags.parse(options)
      const client = adminOf(flags, io)
      const path = `/v1/audit?${queryOf(flags, { limit: String(flags.lines) })}`
      const { body } = await client.call({ method: 'GET', path })
      const latest = parseReply(auditListSchema, body).items.reverse()
      const format = formatOf({ ...flags, watch: flags.follow }, io, 'table')
      if (!flags.follow) {
        await show(io, flags, () => viewOf(latest))
        return
      }
      if (format === 'table' && flags.headers) io.out.write(rendered(viewOf([]), format, flags))
      writeEntries(io, format, latest)
      await follow(io, client, flags, { format, after: latest.at(-1)?.seq ?? 0 })
    })
  withExamples(withOutput(withFilter(withAdminFlags(command))), [
    'quotaplane audit tail',
    'quotaplane audit tail --follow --object api/per-tenant',
    'quotaplane audit tail -n 100 --actor token:ci -o json',
  ])
}

/** Each look asks for what came after the last entry, so none is told twice or left out. */
async function follow(
  io: Io,
  client: AdminClient,
  flags: Filter,
  from: { readonly format: OutputFormat; readonly after: number },
): Promise<void> {
  let { after } = from
  try {
    while (await paused(FOLLOW_INTERVAL_S, io.signal)) {
      for await (const entry of entriesAfter(client, flags, after)) {
        writeEntries(io, from.format, [entry])
        after = entry.seq
      }
    }
  } catch (err) {
    if (!io.signal.aborted) throw err
  }
}

async function* entriesAfter(
  client: AdminClient,
  flags: Filter,
  after: number,
): AsyncGenerator<AuditEntryReply> {
  const path = `/v1/audit/export?${queryOf(flags, { after: String(after) })}`
  for await (const line of client.lines(path, {})) {
    yield parseReply(auditEntrySchema, JSON.parse(line))
  }
}

function addExport(audit: Command, io: Io): void {
  const command = audit
    .command('export')
    .description('print the whole log as JSON lines, oldest first')
    .option(
      '--after <seq>',
      'only entries after this one, to go on where an export ended',
      wholeNumber(0, Number.MAX_SAFE_INTEGER),
    )
    .action(async (options: unknown) => {
      const flags = exportFlags.parse(options)
      const path = `/v1/audit/export?${queryOf(flags, { after: String(flags.after) })}`
      for await (const line of adminOf(flags, io).lines(path, {})) io.out.write(`${line}\n`)
    })
  withExamples(withFilter(withAdminFlags(command)), [
    'quotaplane audit export > audit.jsonl',
    'quotaplane audit export --since 2027-01-01T00:00:00Z | jq -c "[.at, .actor, .action, .objectId]"',
  ])
}

function queryOf(
  { actor, object, kind, domain, since, until }: Filter,
  more: Readonly<Record<string, string>>,
): string {
  const given = { actor, objectId: object, objectKind: kind, domain, since, until }
  const query = new URLSearchParams(more)
  for (const [name, value] of Object.entries(given)) if (value !== undefined) query.set(name, value)
  return query.toString()
}

function writeEntries(io: Io, format: OutputFormat, entries: readonly AuditEntryReply[]): void {
  for (const entry of entries) {
    const view = viewOf([entry])
    if (format === 'json') io.out.write(`${JSON.stringify(entry)}\n`)
    else if (format === 'yaml')
      io.out.write(`---\n${rendered({ ...view, data: entry }, format, { headers: false })}`)
    else io.out.write(rendered(view, format, { headers: false }))
  }
}

function viewOf(entries: readonly AuditEntryReply[]): View {
  return {
    data: { entries },
    headers: ['time'.padEnd(24), 'actor'.padEnd(16), 'action'.padEnd(16), 'object', 'reason'],
    rows: entries.map(({ at, actor, action, objectKind, objectId, reason }) => [
      at,
      actor.padEnd(16),
      action.padEnd(16),
      `${objectKind} ${objectId}`,
      reason ?? '',
    ]),
    names: entries.map(({ seq }) => String(seq)),
  }
}
