import type { Command } from 'commander'
import { z } from 'zod'
import { describeField } from '../admin-client.ts'
import { type ApplyOptions, applyFiles, planFiles } from '../apply-client.ts'
import { labelsOf } from '../arguments.ts'
import { CliError, EXIT } from '../errors.ts'
import { withExitCodes } from '../help.ts'
import type { Io } from '../io.ts'
import { readFiles } from '../policy-files.ts'
import { adminOf } from '../settings.ts'
import {
  printJson,
  printLines,
  withAdminFlags,
  withExamples,
  withWriteFlags,
  writeFlags,
} from './common.ts'
import { planLines } from './plan.ts'

const FILES_HELP =
  'YAML or JSON files, or folders of them, with any number of policies and domains; - reads standard input'

const applyFlags = writeFlags.extend({
  file: z.array(z.string()),
  prune: z.boolean().default(false),
  labels: z.record(z.string(), z.string()).optional(),
})
type ApplyFlags = z.infer<typeof applyFlags>

/** Adds `quotaplane apply` and `quotaplane diff`. */
export function addApplyCommands(
  program: Command,
  io: Io,
  setExitCode: (code: number) => void,
): void {
  const apply = program
    .command('apply')
    .description('bring policies and domains to what files say, all of them or none')
    .action((options: unknown) => applyAll(applyFlags.parse(options), io))
  withExamples(withWriteFlags(withFiles(apply)), [
    'quotaplane apply -f limits.yaml',
    'quotaplane apply -f policies/ --prune -l team=search --dry-run',
    'quotaplane apply -f policies/ --prune -l team=search --reason "spring sale"',
  ])
  const diff = program
    .command('diff')
    .description('show what apply would change')
    .action(async (options: unknown) => {
      const isSame = await diffAll(applyFlags.parse(options), io).catch((err: unknown) => {
        throw new CliError(err instanceof Error ? err.message : String(err), EXIT.usage)
      })
      if (!isSame) setExitCode(EXIT.failure)
    })
  withExamples(withAdminFlags(withFiles(diff)), [
    'quotaplane diff -f limits.yaml',
    'quotaplane diff -f policies/ --prune -l team=search',
  ])
  withExitCodes(diff, '0 nothing differs, 1 something does, 2 it could not be found out')
}

function withFiles(command: Command): Command {
  return command
    .requiredOption('-f, --file <path...>', FILES_HELP)
    .option(
      '--prune',
      'remove policies with the labels that no file names, and domains with them of which none speaks (needs -l)',
    )
    .option(
      '-l, --labels <key=value>',
      'labels of what may be pruned: key=value,key=value',
      labelsOf,
    )
}

async function applyAll(flags: ApplyFlags, io: Io): Promise<void> {
  await applyAndTell(await optionsOf(flags, io), flags, io)
}

/** Applies, or with --dry-run plans, and tells what became of each policy. */
export async function applyAndTell(
  options: ApplyOptions,
  flags: z.infer<typeof writeFlags>,
  io: Io,
): Promise<void> {
  if (flags.dryRun) {
    const plan = await planFiles(options)
    if (flags.json) printJson(io, plan)
    else printLines(io, planLines(plan))
    return
  }
  const applied = await applyFiles(options)
  if (flags.json) {
    const items = applied.items.map(({ outcome: result, ...one }) => ({ ...one, result }))
    const domains = applied.domains.map(({ outcome: result, ...one }) => ({ ...one, result }))
    printJson(io, { revision: applied.revision, domains, applied: items })
    return
  }
  const described = applied.domains.map(
    ({ domain, outcome, revision }) =>
      `domain ${domain} ${outcome}${revision === null ? '' : ` (revision ${revision})`}`,
  )
  const filed = new Map(
    options.documents.policies.map((one) => [`${one.document.domain}/${one.document.name}`, one]),
  )
  const lines = applied.items.flatMap(({ domain, name, outcome, revision, warnings }) => [
    `${domain}/${name} ${outcome}${revision === null ? '' : ` (revision ${revision})`}`,
    ...warnings.map(({ fix, ...warning }) => {
      const where = filed.get(`${domain}/${name}`)?.locate(warning.field)
      const said = describeField({ ...warning, ...(fix !== undefined && { fix }) })
      return `  warning: ${where === undefined ? '' : `${where}: `}${said}`
    }),
  ])
  printLines(io, [...described, ...lines])
}

async function diffAll(flags: ApplyFlags, io: Io): Promise<boolean> {
  const plan = await planFiles(await optionsOf(flags, io))
  const isSame = plan.changes.length + plan.changesLeftOut === 0
  if (flags.json) {
    const { changes, changesLeftOut } = plan
    printJson(io, { isSame, changes, changesLeftOut })
  } else {
    io.out.write(plan.changes.map(({ text }) => text).join(''))
    if (plan.changesLeftOut > 0) printLines(io, [`and ${plan.changesLeftOut} more`])
  }
  return isSame
}

async function optionsOf(flags: ApplyFlags, io: Io): Promise<ApplyOptions> {
  const { labels, prune } = flags
  if (prune !== (labels !== undefined)) {
    throw new CliError('--prune and -l go together: -l says what may be pruned', EXIT.usage)
  }
  const documents = await readFiles(flags.file, io)
  return {
    client: adminOf(flags, io),
    documents,
    ...(labels !== undefined && { prune: { labels } }),
  }
}
