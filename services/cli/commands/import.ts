import { mkdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type Command, InvalidArgumentError } from 'commander'
import { stringify } from 'yaml'
import { z } from 'zod'
import { apportion } from '../../../shared/core/base-split.ts'
import { regionListSchema } from '../../../shared/protocol/admin-replies.ts'
import {
  type PolicyInput,
  policyDocumentSchema,
  weightSteps,
  weightsOfSteps,
} from '../../../shared/protocol/policy.ts'
import { CliError, EXIT } from '../errors.ts'
import { withExitCodes } from '../help.ts'
import { parseEnvoyConfig } from '../import/envoy-config.ts'
import { type EnvoyFile, envoyPolicies, mergeProblems } from '../import/envoy-policies.ts'
import type { FiledFinding, Imported, Split } from '../import/imported.ts'
import { parseLimitadorLimits } from '../import/limitador-limits.ts'
import { limitadorPolicies } from '../import/limitador-policies.ts'
import { type Io, say } from '../io.ts'
import type { FiledPolicy } from '../policy-files.ts'
import { adminOf } from '../settings.ts'
import { applyAndTell } from './apply.ts'
import { withExamples, withWriteFlags, writeFlags } from './common.ts'

/** Findings of one kind that are shown; the rest is counted. */
const FINDINGS_MAX = 50

const importFlags = writeFlags.extend({
  split: z.record(z.string(), z.number()).optional(),
  domain: z.array(z.tuple([z.string(), z.string()])).default([]),
  output: z.string().optional(),
  apply: z.boolean().default(false),
  partial: z.boolean().default(false),
  mergeDomains: z.boolean().default(false),
  descriptor: z.array(z.array(z.string())).default([]),
})
type ImportFlags = z.infer<typeof importFlags>

/** Adds `quotaplane import …`. */
export function addImportCommand(
  program: Command,
  io: Io,
  setExitCode: (code: number) => void,
): void {
  const root = program
    .command('import')
    .description("make policies of another system's configuration")
  const finish = async (flags: ImportFlags, imported: Imported): Promise<void> => {
    if (await deliver(flags, imported, io)) return
    setExitCode(EXIT.failure)
  }
  const envoy = root
    .command('envoy')
    .description("convert the YAML of Envoy's rate limit service (envoyproxy/ratelimit)")
    .argument('<file...>', 'configuration files; - reads standard input')
    .option('--merge-domains', 'let several files have one domain (there: MERGE_DOMAIN_CONFIG)')
    .action(async (files: readonly string[], options: unknown) => {
      const flags = importFlags.parse(options)
      const read = await readEnvoy(files, flags, io)
      const split = await splitOf(flags, io)
      await finish(flags, envoyPolicies(read, { split, domains: new Map(flags.domain) }))
    })
  describe(envoy, [
    'quotaplane import envoy ratelimit.yaml > policies.yaml',
    'quotaplane import envoy config/*.yaml --split us-east-1=60,eu-west-1=40 -o policies/',
    'quotaplane import envoy ratelimit.yaml --apply',
  ])
  const limitador = root
    .command('limitador')
    .description("convert Limitador's limits file, as far as it has a counterpart here")
    .argument('<file>', 'the limits file; - reads standard input')
    .option(
      '--descriptor <keys>',
      'entries of the descriptors that gateways send, in order: req.method,req.path; may be repeated',
      keysOf,
    )
    .action(async (file: string, options: unknown) => {
      const flags = importFlags.parse(options)
      const { limits, problems } = parseLimitadorLimits(await readText(file, io))
      refuse(problems.map((problem) => ({ ...problem, file: shownName(file) })))
      const split = await splitOf(flags, io)
      const domains = new Map(flags.domain)
      const converted = { split, domains, shapes: flags.descriptor }
      await finish(flags, limitadorPolicies(shownName(file), limits, converted))
    })
  describe(limitador, [
    'quotaplane import limitador limits.yaml > policies.yaml',
    'quotaplane import limitador limits.yaml --descriptor req.method,req.path --apply --partial',
  ])
}

/** The options and the help that both have. */
function describe(command: Command, examples: readonly string[]): void {
  command
    .option(
      '--split <weights>',
      'parts of each limit in per cent, such as us-east-1=60,eu-west-1=40, or regions alone for even parts (default: even over the regions of the plane)',
      weightsOf,
    )
    .option('--domain <from=to>', 'what a domain is called here; may be repeated', renamingOf)
    .option('-o, --output <folder>', 'write a file for each domain there, not to standard output')
    .option('--apply', 'create the policies, or change them to what the files say')
    .option('--partial', 'apply although something is left out')
  withExamples(withWriteFlags(command), examples)
  withExitCodes(
    command,
    '0 all is imported, 1 something is left out or cannot be applied, 2 a file cannot be read',
  )
  command.addHelpText(
    'after',
    '\nWhat decides otherwise than before is listed as left out, what only looks otherwise as a note.',
  )
}

async function readEnvoy(
  files: readonly string[],
  { mergeDomains }: ImportFlags,
  io: Io,
): Promise<readonly EnvoyFile[]> {
  const read: EnvoyFile[] = []
  const problems: FiledFinding[] = []
  for (const path of files) {
    const file = shownName(path)
    const parsed = parseEnvoyConfig(await readText(path, io))
    problems.push(...parsed.problems.map((problem) => ({ ...problem, file })))
    if (parsed.domain !== null) read.push({ file, domain: parsed.domain })
  }
  refuse(problems.length > 0 ? problems : mergeProblems(read, mergeDomains))
  return read
}

async function readText(file: string, io: Io): Promise<string> {
  if (file === '-') return await io.readStdin()
  try {
    return await readFile(file, 'utf8')
  } catch (err) {
    const why = err instanceof Error ? err.message : String(err)
    throw new CliError(`cannot read ${file}: ${why}`, EXIT.usage)
  }
}

function shownName(file: string): string {
  return file === '-' ? 'standard input' : file
}

function refuse(problems: readonly FiledFinding[]): void {
  if (problems.length === 0) return
  throw new CliError([...linesOf(problems), 'Nothing was imported.'].join('\n'), EXIT.usage)
}

/** Says what is left out, then writes, applies or prints; false when something did not come over. */
async function deliver(flags: ImportFlags, imported: Imported, io: Io): Promise<boolean> {
  const { policies, leftOut, notes } = imported
  for (const line of linesOf(notes)) say(io.err, `note: ${line}`)
  for (const line of linesOf(leftOut)) say(io.err, `left out: ${line}`)
  for (const policy of policies) policyDocumentSchema.parse(policy)
  const isWhole = leftOut.length === 0
  if (flags.output !== undefined) await writeFiles(flags.output, policies, io)
  if (flags.apply && !isWhole && !flags.partial) {
    throw new CliError('Nothing was applied: say --partial to apply what can be imported.')
  }
  if (flags.apply) await applyAll(flags, policies, io)
  else if (flags.output === undefined) io.out.write(documentsOf(policies))
  return isWhole
}

async function writeFiles(folder: string, policies: readonly PolicyInput[], io: Io): Promise<void> {
  await mkdir(folder, { recursive: true })
  for (const domain of new Set(policies.map((policy) => policy.domain))) {
    const path = join(folder, `${domain}.yaml`)
    const own = policies.filter((policy) => policy.domain === domain)
    await writeFile(path, documentsOf(own))
    say(io.err, `${path}: ${own.length} ${own.length === 1 ? 'policy' : 'policies'}`)
  }
}

/** All or none. They keep their order: of two wildcards that both fit, the policy that was created first governs. */
async function applyAll(
  flags: ImportFlags,
  policies: readonly PolicyInput[],
  io: Io,
): Promise<void> {
  const filed = policies.map((policy): FiledPolicy => {
    const where = `${policy.domain}/${policy.name}`
    return { document: policyDocumentSchema.parse(policy), where, locate: () => where }
  })
  const documents = { policies: filed, domains: [] }
  await applyAndTell({ client: adminOf(flags, io), documents }, flags, io)
}

function documentsOf(policies: readonly PolicyInput[]): string {
  return policies.map((policy) => stringify(policy, { lineWidth: 0 })).join('---\n')
}

function linesOf(findings: readonly FiledFinding[]): readonly string[] {
  const shown = findings
    .slice(0, FINDINGS_MAX)
    .map(
      ({ file, line, field, message }) =>
        `${[`${file}:${line}`, field].filter(Boolean).join(': ')}: ${message}`,
    )
  const more = findings.length - shown.length
  return more > 0 ? [...shown, `and ${more} more`] : shown
}

/** What is given, or even parts over the regions of the plane. */
async function splitOf(flags: ImportFlags, io: Io): Promise<Split> {
  if (flags.split !== undefined) return flags.split
  const pages = await adminOf(flags, io)
    .readPages('/v1/regions', regionListSchema)
    .catch((err: unknown) => {
      const why = err instanceof Error ? err.message : String(err)
      throw new CliError(`no regions to split limits between: give --split (${why})`, EXIT.usage)
    })
  const regions = pages.flatMap(({ items }) => items.map(({ id }) => id))
  if (regions.length === 0) throw new CliError('the plane has no regions: give --split', EXIT.usage)
  return evenSplit(regions)
}

function evenSplit(regions: readonly string[]): Split {
  const weights = Object.fromEntries(regions.map((region) => [region, 1]))
  return weightsOfSteps((steps) => apportion(weights, steps))
}

function weightsOf(text: string): Split {
  const parts = text.split(',').map((part) => part.split('='))
  if (parts.every((part) => part.length === 1))
    return evenSplit(parts.map(([region = '']) => region))
  const split = Object.fromEntries(
    parts.map(([region = '', weight = '']) => [region, Number(weight)]),
  )
  const sum = Object.values(weightSteps(split)).reduce((all, steps) => all + steps, 0)
  if (sum === 10_000) return split
  throw new InvalidArgumentError('It must be weights that sum to 100, such as a=60,b=40.')
}

function renamingOf(
  text: string,
  before: readonly (readonly [string, string])[] = [],
): readonly (readonly [string, string])[] {
  const at = text.lastIndexOf('=')
  if (at > 0 && at < text.length - 1) return [...before, [text.slice(0, at), text.slice(at + 1)]]
  throw new InvalidArgumentError('It must be FROM=TO, the name there and the name here.')
}

function keysOf(
  text: string,
  before: readonly (readonly string[])[] = [],
): readonly (readonly string[])[] {
  const keys = text.split(',').map((key) => key.trim())
  if (keys.every((key) => key !== '')) return [...before, keys]
  throw new InvalidArgumentError('It must be keys separated by commas.')
}
