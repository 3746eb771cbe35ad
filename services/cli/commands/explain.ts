import { type Command, InvalidArgumentError } from 'commander'
import { z } from 'zod'
import type { DescriptorEntry } from '../../../shared/core/descriptor.ts'
import { type ExplainReply, explainReplySchema } from '../../../shared/protocol/explain.ts'
import { EXPLAIN_OUTCOMES, parseEntries } from '../../../shared/protocol/explain-text.ts'
import { parseReply } from '../admin-client.ts'
import { parsePolicyId } from '../arguments.ts'
import { CliError, EXIT } from '../errors.ts'
import { type Io, say } from '../io.ts'
import { outputFlags, show, type View, withOutput, withWatch } from '../output.ts'
import { type RemainingTokens, readRemaining } from '../remaining.ts'
import { adminOf } from '../settings.ts'
import { grouped } from '../table.ts'
import { adminFlags, withAdminFlags, withExamples } from './common.ts'

const explainFlags = adminFlags.extend(outputFlags.shape).extend({
  domain: z.string().optional(),
  descriptor: z.array(z.object({ key: z.string(), value: z.string() })),
  enforcer: z.array(z.tuple([z.string(), z.string()])).default([]),
})

/** Adds `quotaplane explain`. */
export function addExplainCommand(program: Command, io: Io): void {
  const command = program
    .command('explain')
    .description('say which policy governs a descriptor, why others do not, and what is left of it')
    .argument('[domain/name]', 'a policy to explain, whether it governs or not')
    .requiredOption(
      '--descriptor <entries>',
      'key=value,key=value in order; repeat it for values with commas',
      entriesOf,
    )
    .option('--domain <domain>', 'domain of the check (default: that of the policy)')
    .option(
      '--enforcer <region=url>',
      'enforcer to ask what remains in a region; may be repeated (default: those of the local plane)',
      enforcerOf,
    )
    .action(async (policy: string | undefined, options: unknown) => {
      const flags = explainFlags.parse(options)
      const asked = policy === undefined ? null : parsePolicyId(policy)
      const domain = flags.domain ?? asked?.domain
      if (domain === undefined) throw new CliError('give a policy or --domain', EXIT.usage)
      if (asked !== null && asked.domain !== domain) {
        throw new CliError(`${policy} is not of the domain ${domain}`, EXIT.usage)
      }
      const client = adminOf(flags, io)
      const check = { domain, entries: flags.descriptor }
      const body = { ...check, ...(asked !== null && { policy: asked.name }) }
      await show(io, flags, async () => {
        const answer = await client.call({ method: 'POST', path: '/v1/explain', body })
        const reply = parseReply(explainReplySchema, answer.body)
        const enforcers = { given: new Map(flags.enforcer), adminUrl: client.url }
        const remaining = await readRemaining(check, enforcers, io)
        for (const { region, problem } of remaining.problems) {
          say(io.err, `what remains in ${region} is not known: ${problem}`)
        }
        return explainView(reply, remaining.tokens)
      })
    })
  withExamples(withWatch(withOutput(withAdminFlags(command))), [
    'quotaplane explain api/per-tenant --descriptor tenant=acme',
    'quotaplane explain --domain api --descriptor tenant=acme,route=/search -o json',
    'quotaplane explain --domain api --descriptor tenant=acme --enforcer us-east-1=http://10.0.0.5:8080',
  ])
}

function explainView(reply: ExplainReply, remaining: RemainingTokens): View {
  const [first] = reply.policies
  const what = reply.entries.map(({ key, value }) => `${key}=${value}`).join(', ')
  const by = reply.outcome === 'unmatched' ? '' : ` ${reply.domain}/${first?.policy}`
  const limits = reply.limits.map((limit) => ({
    ...limit,
    regions: limit.regions.map((region) => ({
      ...region,
      remaining: remaining.get(region.region)?.get(limit.limit) ?? null,
    })),
  }))
  const names = reply.outcome === 'unmatched' ? [] : [`${reply.domain}/${first?.policy}`]
  return {
    data: { ...reply, limits },
    names,
    headers: ['policy', 'verdict', 'because'],
    rows: reply.policies.map(({ policy, verdict, because }) => [policy, verdict, because]),
    notes: [
      ...(reply.policiesLeftOut > 0 ? [`and ${reply.policiesLeftOut} more that match less`] : []),
      '',
      `${what} ${EXPLAIN_OUTCOMES[reply.outcome]}${by}`,
      ...overrideLines(reply),
      ...limits.flatMap((limit) => limitLines(limit)),
    ],
  }
}

function overrideLines({ override, replaces }: ExplainReply): readonly string[] {
  const until = override?.expiresAt === undefined ? '' : ` until ${override.expiresAt}`
  return [
    ...(override === null
      ? []
      : [
          `${override.value} has an override: ${[override.kind, override.tier].filter(Boolean).join(' ')}${until}`,
        ]),
    ...(replaces.length > 0 ? [`it replaces ${replaces.join(', ')} in checks that meet both`] : []),
  ]
}

type Explained = ExplainReply['limits'][number]
type ShownLimit = Omit<Explained, 'regions'> & {
  readonly regions: readonly (Explained['regions'][number] & {
    readonly remaining: number | null
  })[]
}

function limitLines(limit: ShownLimit): readonly string[] {
  const { limit: name, algorithm, capacity, burst, windowMs, from, isCandidate } = limit
  const more = burst === capacity ? '' : `, bursts of ${grouped(burst)}`
  const kind = isCandidate ? ', a candidate' : ''
  return [
    `  ${name}: ${grouped(capacity)} per ${grouped(windowMs)} ms${more} (${algorithm}, from ${from}${kind})`,
    ...limit.regions.map(({ region, share, isHot, isHungry, remaining }) => {
      const left = remaining === null ? '' : `${grouped(remaining)} remaining of `
      const what = isHot ? 'its share' : 'its base'
      return `    ${region}: ${left}${grouped(share.tokens)}, ${what}${isHungry ? ', hungry' : ''}`
    }),
  ]
}

function entriesOf(
  text: string,
  before: readonly DescriptorEntry[] = [],
): readonly DescriptorEntry[] {
  const entries = parseEntries(text)
  if (!('wrong' in entries)) return [...before, ...entries]
  throw new InvalidArgumentError(`"${entries.wrong}" is not an entry: write key=value.`)
}

function enforcerOf(
  text: string,
  before: readonly (readonly [string, string])[] = [],
): readonly (readonly [string, string])[] {
  const at = text.indexOf('=')
  if (at > 0 && URL.canParse(text.slice(at + 1))) {
    return [...before, [text.slice(0, at), text.slice(at + 1).replace(/\/+$/, '')]]
  }
  throw new InvalidArgumentError('It must be REGION=URL.')
}
