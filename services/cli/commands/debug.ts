import { type Command, InvalidArgumentError } from 'commander'
import { z } from 'zod'
import { problemSchema } from '../../../shared/protocol/admin-replies.ts'
import { durationSeconds } from '../durations.ts'
import { CliError } from '../errors.ts'
import { type Io, say } from '../io.ts'
import {
  formatOf,
  outputFlags,
  paused,
  rendered,
  type View,
  withOutput,
  withWatch,
} from '../output.ts'
import { debugTokenOf, enforcerUrlOf } from '../settings.ts'
import { withExamples } from './common.ts'

const TIMEOUT_MS = 5_000

/** While watching, a sample outlives a lost answer or two, and ends by itself when this command is killed. */
const WATCHED_SECONDS = 10
const SECONDS_DEFAULT = 60
const INTERVAL_S = 1

const flagsSchema = outputFlags.extend({
  sample: z.number().optional(),
  for: z.number().default(SECONDS_DEFAULT),
  enforcerUrl: z.string().optional(),
  region: z.string().optional(),
  debugToken: z.string().optional(),
})
type Flags = z.infer<typeof flagsSchema>

const readingSchema = z.looseObject({
  sample: z.number(),
  until: z.string().nullable(),
  next: z.number(),
  missed: z.number(),
  decisions: z.array(
    z.looseObject({
      seq: z.number(),
      at: z.string(),
      domain: z.string(),
      descriptors: z.array(z.string()),
      cost: z.number(),
      allowed: z.boolean(),
      degraded: z.boolean(),
      unmatched: z.boolean(),
      decisions: z.array(
        z.looseObject({
          policy: z.string(),
          limitName: z.string(),
          allowed: z.boolean(),
          reason: z.string().nullable(),
        }),
      ),
    }),
  ),
})
type Reading = z.infer<typeof readingSchema>
type Decision = Reading['decisions'][number]

/** Adds `quotaplane debug decisions`. */
export function addDebugCommand(program: Command, io: Io): void {
  const debug = program.command('debug').description('look at what single enforcers decide')
  const command = debug
    .command('decisions')
    .description('show a sample of an enforcer’s newest decisions, with their descriptors')
    .option(
      '--sample <part>',
      'keep this part of the checks from now on, such as 1%; 0 ends it',
      partOf,
    )
    .option('--for <span>', 'for how long, such as 5m (default: 1m; at most 1h)', durationSeconds)
    .option('--region <region>', 'region of the local plane to ask')
    .option('--enforcer-url <url>', 'enforcer to ask (env QUOTAPLANE_ENFORCER_URL)')
    .option('--debug-token <token>', 'its ENFORCER_DEBUG_TOKEN (env QUOTAPLANE_DEBUG_TOKEN)')
    .action(async (options: unknown) => {
      const flags = flagsSchema.parse(options)
      const url = enforcerUrlOf(flags, io)
      const log = new EnforcerLog(url, debugTokenOf(flags, url, io), io)
      if (flags.watch) await watch(io, log, flags)
      else await showOnce(io, log, flags)
    })
  withExamples(withWatch(withOutput(command)), [
    'quotaplane debug decisions --sample 1% --watch',
    'quotaplane debug decisions --sample 100% --for 30s --region eu-west-1',
    'quotaplane debug decisions -o json',
  ])
}

async function showOnce(io: Io, log: EnforcerLog, flags: Flags): Promise<void> {
  if (flags.sample !== undefined) await log.keep(flags.sample, flags.for)
  const reading = await log.read(0)
  const view = { ...viewOf(reading.decisions), data: reading, notes: [sampleOf(reading)] }
  io.out.write(rendered(view, formatOf(flags, io, 'table'), flags))
}

/** Each look asks for what came after the last one; the sample ends with it. */
async function watch(io: Io, log: EnforcerLog, flags: Flags): Promise<void> {
  const { sample, interval = INTERVAL_S } = flags
  const seconds = Math.max(WATCHED_SECONDS, 2 * Math.ceil(interval))
  let after: number | null = null
  try {
    do {
      if (sample !== undefined) await log.keep(sample, seconds)
      after = write(io, await log.read(after ?? 0), { flags, isFirst: after === null })
    } while (await paused(interval, io.signal))
  } catch (err) {
    if (!io.signal.aborted) throw err
  }
  if (sample !== undefined) await log.keep(0, 1)
}

function write(
  io: Io,
  { decisions, next, missed }: Reading,
  { flags, isFirst }: { readonly flags: Flags; readonly isFirst: boolean },
): number {
  const format = formatOf(flags, io, 'table')
  if (!isFirst && missed > 0) say(io.err, `${missed} left out: take a smaller sample`)
  for (const one of decisions) {
    const view = { ...viewOf([one]), data: one }
    io.out.write(rendered(view, format, { headers: false }))
  }
  return next
}

function viewOf(decisions: readonly Decision[]): View {
  return {
    data: decisions,
    headers: ['time'.padEnd(24), 'outcome', 'domain', 'descriptors', 'decided by'],
    rows: decisions.map((one) => [
      one.at,
      outcomeOf(one).padEnd(7),
      one.domain,
      one.descriptors.join(' + '),
      one.unmatched ? 'no policy' : one.decisions.map(saying).join(', '),
    ]),
    names: decisions.map(({ seq }) => String(seq)),
  }
}

function outcomeOf({ allowed, degraded }: Decision): string {
  return `${allowed ? 'allowed' : 'denied'}${degraded ? ' without the store' : ''}`
}

function saying({ policy, limitName, reason }: Decision['decisions'][number]): string {
  const why = reason === null ? '' : `: ${reason.replaceAll('_', ' ')}`
  return `${policy}/${limitName}${why}`
}

function sampleOf({ sample, until }: Reading): string {
  if (until === null) return 'Nothing is being kept: give --sample 1%.'
  return `Keeping ${Number((100 * sample).toFixed(4))} % of the checks until ${until}.`
}

/** `1%`, or a number from 0 to 1. */
export function partOf(text: string): number {
  const [, number = '', percent] = /^(\d+(?:\.\d+)?)(%?)$/.exec(text.trim()) ?? []
  const part = number === '' ? Number.NaN : Number(number) / (percent === '%' ? 100 : 1)
  if (part >= 0 && part <= 1) return part
  throw new InvalidArgumentError('It must be a part such as 1%, or a number from 0 to 1.')
}

class EnforcerLog {
  readonly #url: string
  readonly #token: string
  readonly #io: Io

  constructor(url: string, token: string, io: Io) {
    this.#url = url
    this.#token = token
    this.#io = io
  }

  async keep(sample: number, seconds: number): Promise<void> {
    await this.#call('', { method: 'PUT', body: JSON.stringify({ sample, seconds }) })
  }

  async read(after: number): Promise<Reading> {
    return readingSchema.parse(await this.#call(`?after=${after}`, { method: 'GET' }))
  }

  async #call(query: string, init: { readonly method: string; readonly body?: string }) {
    const isLast = this.#io.signal.aborted
    const deadline = AbortSignal.timeout(TIMEOUT_MS)
    let response: Response
    try {
      response = await fetch(`${this.#url}/v1/debug/decisions${query}`, {
        ...init,
        headers: {
          authorization: `Bearer ${this.#token}`,
          ...(init.body !== undefined && { 'content-type': 'application/json' }),
        },
        // Ending the sample comes after Ctrl-C.
        signal: isLast ? deadline : AbortSignal.any([deadline, this.#io.signal]),
      })
    } catch (err) {
      if (this.#io.signal.aborted) throw err
      const cause =
        err instanceof Error && err.cause instanceof Error ? err.cause.message : String(err)
      throw new CliError(`no enforcer answers at ${this.#url} (${cause})`)
    }
    const body: unknown = await response.json().catch(() => null)
    if (response.ok) return body
    const problem = problemSchema.partial().safeParse(body)
    const detail = problem.success ? problem.data.detail : undefined
    throw new CliError(detail ?? `the enforcer answered ${response.status}`)
  }
}
