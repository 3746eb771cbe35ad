import type { Command } from 'commander'
import { z } from 'zod'
import { problemSchema } from '../../../shared/protocol/admin-replies.ts'
import { describeField } from '../admin-client.ts'
import { CliError, EXIT } from '../errors.ts'
import type { Io } from '../io.ts'
import { callerFieldOf, enforcerUrlOf, localEnforcerUrls } from '../settings.ts'
import { grouped, table } from '../table.ts'
import { printJson, printLines, wholeNumber, withExamples } from './common.ts'

/** Far beyond an enforcer's own deadline for its store. */
const CHECK_TIMEOUT_MS = 5_000

const flagsSchema = z.object({
  domain: z.string(),
  cost: z.number(),
  enforcerUrl: z.string().optional(),
  enforcerToken: z.string().optional(),
  region: z.string().optional(),
  allRegions: z.boolean().default(false),
  json: z.boolean().default(false),
})

const answerSchema = z.looseObject({
  allowed: z.boolean(),
  region: z.string(),
  revision: z.number(),
  degraded: z.boolean(),
  unmatched: z.boolean().optional(),
  decisions: z.array(
    z.looseObject({
      policy: z.string(),
      allowed: z.boolean(),
      limit: z.number(),
      windowMs: z.number(),
      remaining: z.number().nullable(),
      resetMs: z.number().nullable(),
      retryAfterMs: z.number().nullable(),
      limitName: z.string().optional(),
      reason: z.string().optional(),
    }),
  ),
})
type Answer = z.infer<typeof answerSchema>

/** Adds `quotaplane check`, which exits with 3 when the check is denied. */
export function addCheckCommand(
  program: Command,
  io: Io,
  setExitCode: (code: number) => void,
): void {
  const command = program
    .command('check')
    .description('ask an enforcer for a decision; exits with 3 when it is denied')
    .argument(
      '<key=value...>',
      'entries of one descriptor, in order; a lone + begins another descriptor',
    )
    .requiredOption('--domain <domain>', 'domain of the check')
    .option(
      '--cost <tokens>',
      'tokens to take; 0 reads without taking',
      wholeNumber(0, Number.MAX_SAFE_INTEGER),
      1,
    )
    .option('--region <region>', 'region of the local plane to ask')
    .option('--all-regions', 'ask every region of the local plane')
    .option('--enforcer-url <url>', 'enforcer to ask (env QUOTAPLANE_ENFORCER_URL)')
    .option(
      '--enforcer-token <token>',
      'token with the scope quota:check (env QUOTAPLANE_ENFORCER_TOKEN)',
    )
    .option('--json', 'print the answer as JSON')
    .action(async (entries: readonly string[], options: unknown) => {
      const flags = flagsSchema.parse(options)
      const descriptors = parseDescriptors(entries)
      const check = { domain: flags.domain, descriptors, cost: flags.cost }
      for (const url of urlsOf(flags, io)) {
        const body = await ask({ url, caller: callerFieldOf(flags, io) }, check, io)
        const answer = answerSchema.parse(body)
        if (flags.json) printJson(io, body)
        else printLines(io, answerLines(answer))
        if (!answer.allowed) setExitCode(EXIT.denied)
      }
    })
  withExamples(command, [
    'quotaplane check --domain api tenant=acme',
    'quotaplane check --domain api tenant=acme --cost 0 --all-regions',
    'quotaplane check --domain api --cost 0 --region eu-west-1 tenant=acme --json',
    'quotaplane check --domain api tenant=acme + client=10.0.0.7 || echo denied',
  ])
}

/** One after the other: a person reads them so, and the last token of a limit is taken once. */
function urlsOf(flags: z.infer<typeof flagsSchema>, io: Io): readonly string[] {
  if (!flags.allRegions) return [enforcerUrlOf(flags, io)]
  if (flags.region !== undefined || flags.enforcerUrl !== undefined) {
    throw new CliError('give --all-regions, or one region or enforcer', EXIT.usage)
  }
  return localEnforcerUrls(io)
}

interface Descriptor {
  readonly entries: readonly { readonly key: string; readonly value: string }[]
}

/** `a=1 b=2 + c=3` as two descriptors. */
export function parseDescriptors(words: readonly string[]): readonly Descriptor[] {
  const descriptors: { key: string; value: string }[][] = [[]]
  for (const word of words) {
    const at = word.indexOf('=')
    if (word === '+') descriptors.push([])
    else if (at > 0) descriptors.at(-1)?.push({ key: word.slice(0, at), value: word.slice(at + 1) })
    else throw new CliError(`"${word}" is not an entry: write key=value`, EXIT.usage)
  }
  if (descriptors.some((entries) => entries.length === 0)) {
    throw new CliError('each descriptor needs at least one entry key=value', EXIT.usage)
  }
  return descriptors.map((entries) => ({ entries }))
}

async function ask(
  { url, caller }: { readonly url: string; readonly caller: Readonly<Record<string, string>> },
  check: unknown,
  io: Io,
): Promise<unknown> {
  const signal = AbortSignal.any([AbortSignal.timeout(CHECK_TIMEOUT_MS), io.signal])
  let response: Response
  try {
    response = await fetch(`${url}/v1/check`, {
      method: 'POST',
      headers: { ...caller, 'content-type': 'application/json' },
      body: JSON.stringify(check),
      signal,
    })
  } catch (err) {
    const cause =
      err instanceof Error && err.cause instanceof Error ? err.cause.message : String(err)
    throw new CliError(`no enforcer answers at ${url} (${cause})`)
  }
  const body: unknown = await response.json().catch(() => null)
  if (response.ok) return body
  const problem = problemSchema.partial().safeParse(body)
  const detail = problem.success ? problem.data.detail : undefined
  const fields = problem.success ? (problem.data.errors ?? []) : []
  if (fields.length > 0) throw new CliError(fields.map(describeField).join('\n'))
  throw new CliError(detail ?? `the enforcer answered ${response.status}`)
}

function answerLines(answer: Answer): string[] {
  const verdict = answer.allowed ? 'allowed' : 'denied'
  const how = answer.degraded ? ', without its store' : ''
  const head = `${verdict} in ${answer.region}${how}`
  if (answer.unmatched) return [`${head}: no policy governs this descriptor`]
  const rows = answer.decisions.map((decision) => [
    decision.policy,
    decision.limitName ?? '',
    `${decision.allowed ? 'allowed' : 'denied'}${why(decision.reason)}`,
    `${grouped(decision.limit)} per ${grouped(decision.windowMs)} ms`,
    shown(decision.remaining),
    shown(decision.resetMs),
    shown(decision.retryAfterMs),
  ])
  return [
    head,
    ...table(
      ['policy', 'limit', 'decision', 'capacity', '>remaining', '>reset ms', '>retry after ms'],
      rows,
    ),
  ]
}

/** What there is to say beyond the verdict; a denial is usually for its limit. */
function why(reason: string | undefined): string {
  return reason === undefined || reason === 'limit' ? '' : `: ${reason.replaceAll('_', ' ')}`
}

function shown(value: number | null): string {
  return value === null ? '-' : grouped(value)
}
