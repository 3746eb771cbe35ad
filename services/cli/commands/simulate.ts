import { type Command, InvalidArgumentError } from 'commander'
import { z } from 'zod'
import type { RegionOverride } from '../../../shared/core/overrides.ts'
import type { OverrideReply } from '../../../shared/protocol/admin-replies.ts'
import { type PolicyDocument, policyDocumentSchema } from '../../../shared/protocol/policy.ts'
import { documentOf } from '../../../shared/protocol/policy-document.ts'
import type { AdminClient } from '../admin-client.ts'
import { REGION_FROM_HELP, regionRuleOf } from '../demo/trace-region.ts'
import { CliError, EXIT } from '../errors.ts'
import { type Io, say } from '../io.ts'
import { outputFlags, show, withOutput } from '../output.ts'
import { readAllPolicies, readOverrides } from '../policy-document.ts'
import { readPolicies } from '../policy-files.ts'
import { adminOf } from '../settings.ts'
import { type CheckCounts, checksOf, type DescriptorMap, mapByNames } from '../simulate/checks.ts'
import { linesOf, type ReadProgress } from '../simulate/lines.ts'
import { Progress } from '../simulate/progress.ts'
import { type SimulationAbout, simulationView } from '../simulate/report.ts'
import { Tally } from '../simulate/tally.ts'
import { TwinPlane, type TwinPolicy } from '../simulate/twin-plane.ts'
import { adminFlags, wholeNumber, withAdminFlags, withExamples } from './common.ts'

const simulateFlags = adminFlags.extend(outputFlags.shape).extend({
  trace: z.string(),
  file: z.string(),
  against: z.string().default('plane'),
  only: z.boolean().default(false),
  domain: z.string().optional(),
  map: z.array(z.array(z.object({ key: z.string(), field: z.string() }))).default([]),
  time: z.string().optional(),
  regionFrom: z.string().optional(),
  model: z.enum(['whole', 'split']).default('whole'),
  keys: z.number(),
})
type SimulateFlags = z.infer<typeof simulateFlags>

/** Adds `quotaplane simulate`. */
export function addSimulateCommand(program: Command, io: Io): void {
  const command = program
    .command('simulate')
    .description('replay a log against new policies: what they would have admitted and denied')
    .requiredOption('--trace <log>', 'access log, JSON lines, or CSV with a header; also .gz')
    .requiredOption('-f, --file <file>', 'the new policies; others of the plane stay as they are')
    .option(
      '--against <file>',
      'the present policies (default: those of the plane; none: no limit)',
    )
    .option('--only', 'let the new policies be all there are, and none of the present ones stay')
    .option('--domain <domain>', 'domain of the checks (default: that of the new policies)')
    .option(
      '--map <key=field,...>',
      'entries of a descriptor and the fields of the log that have them; may be repeated (default: each match whose keys are fields)',
      mapOf,
    )
    .option('--time <field>', 'field of the log that has the time')
    .option('--region-from <rule>', REGION_FROM_HELP)
    .option('--model <model>', 'whole: regions lend each other what they need; split: they cannot')
    .option('--keys <count>', 'keys to list', wholeNumber(0, 1_000), 10)
    .action(async (options: unknown) => simulate(simulateFlags.parse(options), io))
  withExamples(withOutput(withAdminFlags(command)), [
    'quotaplane simulate --trace access.log -f new.yaml --map tenant=client --region-from us-east-1',
    'quotaplane simulate --trace checks.jsonl -f new.yaml --map tenant=user.id,route=path -o json',
    'quotaplane simulate --trace trace.csv -f new.yaml --against old.yaml --model split',
  ])
  command.addHelpText(
    'after',
    "\nAn access log's fields are client, user, method, path, status, referer and agent; CSV has its columns, JSON its names, nested ones with dots. A field `requests` makes a line stand for so many, evenly until the next.\nDecisions are exact for one limiter that holds all of each limit, of several shards in each of its parts; concurrency limits are left out, since a log does not say when a caller was done.",
  )
}

async function simulate(flags: SimulateFlags, io: Io): Promise<void> {
  const filed = (await readPolicies(flags.file, io)).map(({ document }) => document)
  const present = await presentPolicies(flags, io)
  const changed = changedPolicies(present ?? [], filed, flags.only)
  const domain = flags.domain ?? onlyDomain(filed)
  const now = present === null ? null : new TwinPlane(present, flags.model)
  const then = new TwinPlane(changed, flags.model)
  const regions = new Set(changed.flatMap(({ document }) => regionsOf(document)))
  const { regionFrom } = flags
  const regionOf = regionFrom === undefined ? null : await regionRuleOf(regionFrom, [...regions])
  const counts: CheckCounts = { skipped: 0, late: 0 }
  const read: ReadProgress = { part: 0 }
  const checks = checksOf(
    {
      lines: linesOf(flags.trace, read),
      path: flags.trace,
      timeField: flags.time ?? null,
      regionOf,
      mapOf: (fields: readonly string[]) => descriptorMaps(flags, filed, fields),
    },
    counts,
  )
  const tally = new Tally()
  const progress = new Progress(io.err, read)
  try {
    for await (const check of checks) {
      io.signal.throwIfAborted()
      if (check.descriptors.length === 0) counts.skipped++
      else {
        const asked = { ...check, domain, cost: 1, nowMs: check.timeMs }
        tally.add(check, now?.check(asked) ?? null, then.check(asked))
      }
      progress.step()
    }
  } finally {
    progress.end()
  }
  if (flags.model === 'split') warnOfStrangers([...tally.regions.keys()], regions, io)
  await report(flags, tally, { domain, hasPresent: now !== null, ...counts }, io)
}

async function report(
  flags: SimulateFlags,
  tally: Tally,
  about: Omit<SimulationAbout, 'trace' | 'model' | 'keys'>,
  io: Io,
): Promise<void> {
  const { trace, model, keys } = flags
  if (tally.total.checks === 0)
    throw new CliError(`${trace} holds no request that could be checked`)
  const view = simulationView(tally, { ...about, trace, model, keys })
  await show(io, { ...flags, watch: false }, () => view)
}

async function presentPolicies(
  { against, ...flags }: SimulateFlags,
  io: Io,
): Promise<readonly TwinPolicy[] | null> {
  if (against === 'none') return null
  if (against !== 'plane')
    return (await readPolicies(against, io)).map(({ document }) => ({ document }))
  const client = adminOf(flags, io)
  const replies = await readAllPolicies(client).catch((err: unknown) => {
    const why = err instanceof Error ? err.message : String(err)
    throw new CliError(
      `the present policies are not known: ${why}\nGive them with --against FILE, or --against none.`,
    )
  })
  const policies: TwinPolicy[] = []
  for (const reply of replies) {
    const document = policyDocumentSchema.parse(documentOf(reply))
    policies.push({ document, ...(await overridesOf(client, reply)) })
  }
  return policies
}

async function overridesOf(
  client: AdminClient,
  policy: { readonly domain: string; readonly name: string; readonly overrideCount: number },
): Promise<Pick<TwinPolicy, 'overrides'>> {
  if (policy.overrideCount === 0) return {}
  return { overrides: (await readOverrides(client, policy)).map(overrideOf) }
}

function overrideOf({ value, tier, limits, unlimited }: OverrideReply): RegionOverride {
  if (tier !== undefined) return { value, rule: { kind: 'tier', tier } }
  if (limits !== undefined) {
    const numbers = Object.entries(limits).map(([name, { capacity, burst }]) => [
      name,
      { capacity, ...(burst !== undefined && { burst }) },
    ])
    return { value, rule: { kind: 'numbers', limits: Object.fromEntries(numbers) } }
  }
  return { value, rule: { kind: unlimited === true ? 'unlimited' : 'deny' } }
}

/** The present policies with the new ones in their places; tenants keep their overrides. */
function changedPolicies(
  present: readonly TwinPolicy[],
  filed: readonly PolicyDocument[],
  isOnly: boolean,
): readonly TwinPolicy[] {
  const nameOf = ({ domain, name }: PolicyDocument): string => `${domain}/${name}`
  const changes = new Map(filed.map((document) => [nameOf(document), document]))
  const kept = present.flatMap((policy) => {
    const document = changes.get(nameOf(policy.document))
    changes.delete(nameOf(policy.document))
    if (document !== undefined) return [{ ...policy, document }]
    return isOnly ? [] : [policy]
  })
  return [...kept, ...[...changes.values()].map((document) => ({ document }))]
}

function onlyDomain(policies: readonly PolicyDocument[]): string {
  const domains = [...new Set(policies.map(({ domain }) => domain))]
  const [domain] = domains
  if (domain !== undefined && domains.length === 1) return domain
  throw new CliError(`the new policies are of ${domains.join(', ')}: say --domain`, EXIT.usage)
}

function descriptorMaps(
  { map, trace }: SimulateFlags,
  policies: readonly PolicyDocument[],
  fields: readonly string[],
): readonly DescriptorMap[] {
  const unknown = map.flat().find(({ field }) => !fields.includes(field))
  if (unknown !== undefined) {
    throw new CliError(
      `${trace} has no field ${unknown.field}, but ${fields.join(', ')}`,
      EXIT.usage,
    )
  }
  const maps = map.length > 0 ? map : mapByNames(policies, fields)
  if (maps.length > 0) return maps
  const keys = policies.map(({ match }) => match.map(({ key }) => key).join(',')).join(' or ')
  throw new CliError(
    `no policy matches by fields of ${trace} (${fields.join(', ')}): say which hold ${keys} with --map`,
    EXIT.usage,
  )
}

function regionsOf(document: PolicyDocument): readonly string[] {
  return document.limits.flatMap(({ split }) => Object.keys(split))
}

/** A region without a part admits nothing in this model, which may be a mistake of names. */
function warnOfStrangers(seen: readonly string[], known: ReadonlySet<string>, io: Io): void {
  const strangers = seen.filter((region) => !known.has(region))
  if (strangers.length > 0) say(io.err, `no limit has a part for ${strangers.join(', ')}`)
}

function mapOf(text: string, before: readonly DescriptorMap[] = []): readonly DescriptorMap[] {
  const map = text.split(',').map((part) => {
    const [key = '', field = '', ...rest] = part.split('=').map((word) => word.trim())
    if (key === '' || field === '' || rest.length > 0) {
      throw new InvalidArgumentError(`"${part}" is not KEY=FIELD.`)
    }
    return { key, field }
  })
  return [...before, map]
}
