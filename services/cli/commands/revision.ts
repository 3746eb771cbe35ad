import type { Command } from 'commander'
import { z } from 'zod'
import {
  type RollbackReply,
  revisionDiffSchema,
  revisionListSchema,
  revisionReplySchema,
  rollbackReplySchema,
} from '../../../shared/protocol/revisions.ts'
import { describeField, parseReply } from '../admin-client.ts'
import { CliError, EXIT } from '../errors.ts'
import { withExitCodes } from '../help.ts'
import type { Io } from '../io.ts'
import { outputFlags, show, withOutput } from '../output.ts'
import { adminOf } from '../settings.ts'
import {
  adminFlags,
  printJson,
  printLines,
  wholeNumber,
  withAdminFlags,
  withExamples,
  withWriteFlags,
  writeFlags,
} from './common.ts'
import { carryOut } from './plan.ts'

const LIST_DEFAULT = 20
const LIST_MAX = 100

const readFlags = adminFlags.extend(outputFlags.shape)
const listFlags = readFlags.extend({ limit: z.number().default(LIST_DEFAULT) })
const diffFlags = adminFlags.extend({ against: z.string().optional() })
const revisionOf = wholeNumber(0, Number.MAX_SAFE_INTEGER)

/** Adds `quotaplane revision …` and `quotaplane rollback`. */
export function addRevisionCommands(
  program: Command,
  io: Io,
  setExitCode: (code: number) => void,
): void {
  const revision = program
    .command('revision')
    .description('show who changed what, when and why, and compare any two states')
  addList(revision, io)
  addShow(revision, io)
  addDiff(revision, io, setExitCode)
  addRollback(program, io)
}

function addList(revision: Command, io: Io): void {
  const command = revision
    .command('list')
    .description('list the newest revisions')
    .option('--limit <count>', `how many (default ${LIST_DEFAULT})`, wholeNumber(1, LIST_MAX))
    .action(async (options: unknown) => {
      const flags = listFlags.parse(options)
      const client = adminOf(flags, io)
      await show(io, flags, async () => {
        const path = `/v1/revisions?limit=${flags.limit}`
        const { body } = await client.call({ method: 'GET', path })
        const { items } = parseReply(revisionListSchema, body)
        return {
          data: { revisions: items },
          headers: ['>revision', 'at', 'who', 'what', 'why'],
          rows: items.map(({ revision: number, at, actor, reason, changes, changeCount }) => [
            String(number),
            at,
            actor,
            whatOf(changes, changeCount),
            reason ?? '',
          ]),
          names: items.map(({ revision: number }) => String(number)),
        }
      })
    })
  withExamples(withOutput(withAdminFlags(command)), [
    'quotaplane revision list',
    'quotaplane revision list --limit 100 -o json',
  ])
}

function whatOf(
  changes: readonly { readonly action: string; readonly id: string }[],
  count: number,
): string {
  const [first] = changes
  if (first === undefined) return 'moved parts of limits'
  return `${first.action} ${first.id}${count > 1 ? ` and ${count - 1} more` : ''}`
}

function addShow(revision: Command, io: Io): void {
  const command = revision
    .command('show')
    .description('show one revision')
    .argument('<revision>', 'its number, or any that it took', revisionOf)
    .action(async (number: number, options: unknown) => {
      const flags = readFlags.parse(options)
      const client = adminOf(flags, io)
      await show(io, flags, async () => {
        const { body } = await client.call({ method: 'GET', path: `/v1/revisions/${number}` })
        const found = parseReply(revisionReplySchema, body)
        const { actor, reason, requestId, changesLeftOut } = found
        return {
          data: found,
          headers: ['action', 'kind', 'what'],
          rows: found.changes.map(({ action, kind, id }) => [action, kind, id]),
          names: [String(found.revision)],
          notes: [
            ...(changesLeftOut > 0 ? [`and ${changesLeftOut} more`] : []),
            `Revision ${found.revision}, ${found.at}, by ${actor} (request ${requestId})`,
            reason === null ? 'No reason was given.' : `Reason: ${reason}`,
          ],
        }
      })
    })
  withExamples(withOutput(withAdminFlags(command)), [
    'quotaplane revision show 412',
    'quotaplane revision show 412 -o yaml',
  ])
}

function addDiff(revision: Command, io: Io, setExitCode: (code: number) => void): void {
  const command = revision
    .command('diff')
    .description('show what policies and overrides are at a revision, against another')
    .argument('<revision>', 'its number', revisionOf)
    .option('--against <revision>', 'the other (default: the one before)')
    .action(async (number: number, options: unknown) => {
      const flags = diffFlags.parse(options)
      const against = flags.against === undefined ? '' : `?against=${revisionOf(flags.against)}`
      const path = `/v1/revisions/${number}/diff${against}`
      const answer = await adminOf(flags, io)
        .call({ method: 'GET', path })
        .catch((err: unknown) => {
          throw new CliError(err instanceof Error ? err.message : String(err), EXIT.usage)
        })
      const diff = parseReply(revisionDiffSchema, answer.body)
      if (flags.json) printJson(io, diff)
      else io.out.write(diff.items.map(({ text }) => text).join(''))
      if (diff.itemsLeftOut > 0 && !flags.json) printLines(io, [`and ${diff.itemsLeftOut} more`])
      if (diff.items.length > 0) setExitCode(EXIT.failure)
    })
  withExamples(withAdminFlags(command), [
    'quotaplane revision diff 412',
    'quotaplane revision diff 412 --against 400',
  ])
  withExitCodes(command, '0 nothing differs, 1 something does, 2 it could not be found out')
}

function addRollback(program: Command, io: Io): void {
  const command = program
    .command('rollback')
    .description('bring policies, overrides and domains back to what they were at a revision')
    .argument('<revision>', 'its number', revisionOf)
    .action(async (number: number, options: unknown) => {
      const flags = writeFlags.parse(options)
      const path = `/v1/revisions/${number}/rollback`
      const request = { method: 'POST', path, body: {} } as const
      await carryOut(adminOf(flags, io), request, flags, io, (body) => {
        const reply = parseReply(rollbackReplySchema, body)
        if (flags.json) printJson(io, reply)
        else printLines(io, rollbackLines(reply))
      })
    })
  withExamples(withWriteFlags(command), [
    'quotaplane rollback 411 --dry-run',
    'quotaplane rollback 411 --reason "the new limits were too low"',
  ])
}

function rollbackLines(reply: RollbackReply): string[] {
  const { revision, restored, items, domains, expired, kept } = reply
  const others = Object.entries(kept).map(([kind, count]) => `${count} ${kind}`)
  return [
    ...items.flatMap(({ domain, name, outcome, warnings }) => [
      `${domain}/${name} ${outcome}`,
      ...warnings.map(({ field, message }) => `  warning: ${describeField({ field, message })}`),
    ]),
    ...domains.map(({ domain, outcome }) => `domain ${domain} ${outcome}`),
    ...expired.map((override) => `override ${override} has expired since and was left out`),
    ...(others.length > 0 ? [`Not brought back: ${others.join(', ')}.`] : []),
    revision === null
      ? `Policies, overrides and domains are as they were at revision ${restored}: nothing was changed.`
      : `Policies, overrides and domains are as they were at revision ${restored}, as revision ${revision}.`,
  ]
}
