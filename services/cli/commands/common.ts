import { type Command, InvalidArgumentError, Option } from 'commander'
import { z } from 'zod'
import { REGION_PATTERN } from '../../../shared/protocol/subjects.ts'
import type { Io } from '../io.ts'

/** Options of every command that talks to admin. */
export const adminFlags = z.object({
  context: z.string().optional(),
  adminUrl: z.string().optional(),
  token: z.string().optional(),
  json: z.boolean().default(false),
})

/** Options of every command that changes something. */
export const writeFlags = adminFlags.extend({
  reason: z.string().optional(),
  dryRun: z.boolean().default(false),
})

/** As `withAdminFlags`, with --reason and --dry-run. */
export function withWriteFlags(command: Command): Command {
  return withDryRun(withAdminFlags(command)).option('--reason <why>', 'why, for the history')
}

/** As `withWriteFlags`, of what nobody may do without saying why. */
export function withNeededReason(command: Command): Command {
  return withDryRun(withAdminFlags(command)).requiredOption(
    '--reason <why>',
    'why, for whoever finds it in the history',
  )
}

function withDryRun(command: Command): Command {
  return command.option('--dry-run', 'change nothing, and show what would be changed')
}

/** Adds --context, --admin-url, --token and --json. */
export function withAdminFlags(command: Command): Command {
  return command
    .addOption(
      new Option(
        '--context <name>',
        'plane to talk to (env QUOTAPLANE_CONTEXT; default: the current one)',
      ),
    )
    .addOption(
      new Option(
        '--admin-url <url>',
        'admin of the plane (env QUOTAPLANE_URL; default: the local plane)',
      ),
    )
    .addOption(
      new Option(
        '--token <token>',
        'bearer token (env QUOTAPLANE_TOKEN; default: the local plane)',
      ),
    )
    .option('--json', 'print JSON on one line')
}

/** Adds examples below a command's help. */
export function withExamples(command: Command, examples: readonly string[]): Command {
  const lines = examples.map((example) => `  $ ${example}`)
  return command.addHelpText('after', `\nExamples:\n${lines.join('\n')}`)
}

/** Data for programs: one line. */
export function printJson(io: Io, value: unknown): void {
  io.out.write(`${JSON.stringify(value)}\n`)
}

/** Data for people. */
export function printLines(io: Io, lines: readonly string[]): void {
  io.out.write(`${lines.join('\n')}\n`)
}

/** Parser of an option: a whole number within bounds. */
export function wholeNumber(min: number, max: number): (text: string) => number {
  return (text) => {
    const value = Number(text)
    // What JavaScript takes for a number besides, such as 0x10 and 1e3, is a typing error.
    if (/^\d{1,16}$/.test(text) && value >= min && value <= max) return value
    throw new InvalidArgumentError(`It must be a whole number from ${min} to ${max}.`)
  }
}

/** Parser of an option: a number above zero. */
export function positiveNumber(text: string): number {
  const value = Number(text)
  if (text.trim() !== '' && Number.isFinite(value) && value > 0) return value
  throw new InvalidArgumentError('It must be a number above 0.')
}

/** Parser of an option: region names separated by commas, each once. */
export function regionList(max: number): (text: string) => readonly string[] {
  return (text) => {
    const regions = text.split(',').map((region) => region.trim())
    const bad = regions.find((region) => !REGION_PATTERN.test(region))
    if (bad !== undefined) {
      throw new InvalidArgumentError(
        `"${bad}" is not a region name: use lower-case letters, digits and hyphens, at most 63.`,
      )
    }
    if (new Set(regions).size < regions.length) {
      throw new InvalidArgumentError('Each region may be named once.')
    }
    if (regions.length > max) throw new InvalidArgumentError(`At most ${max} regions fit here.`)
    return regions
  }
}
