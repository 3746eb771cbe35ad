import { setTimeout as delay } from 'node:timers/promises'
import { type Command, InvalidArgumentError } from 'commander'
import { z } from 'zod'
import {
  type RegionRollout,
  type RolloutReply,
  rolloutReplySchema,
} from '../../../shared/protocol/rollout-reply.ts'
import { type AdminClient, parseReply } from '../admin-client.ts'
import { CliError, EXIT } from '../errors.ts'
import { withExitCodes } from '../help.ts'
import { type Io, say } from '../io.ts'
import { formatOf, outputFlags, rendered, type View, withOutput } from '../output.ts'
import { adminOf } from '../settings.ts'
import { adminFlags, wholeNumber, withAdminFlags, withExamples } from './common.ts'

/** By the clock and not by the live stream, which tells of it once a second: a rollout is over in less. */
const WATCH_EVERY_MS = 250

const TIMEOUT_DEFAULT_SECONDS = 60
const TIMEOUT_MAX_SECONDS = 86_400

const flagsSchema = adminFlags.extend(outputFlags.shape).extend({
  timeout: z.number().default(TIMEOUT_DEFAULT_SECONDS),
})

/** Adds `quotaplane rollout …`. */
export function addRolloutCommand(
  program: Command,
  io: Io,
  setExitCode: (code: number) => void,
): void {
  const rollout = program
    .command('rollout')
    .description('show where a revision is applied, and what it waits for elsewhere')
  const command = rollout
    .command('status')
    .description('say per region and enforcer which revision is applied, since when, and why not')
    .argument('[revision]', 'its number; the newest when left out', revisionOf)
    .option('--watch', 'show each change until the revision is applied everywhere')
    .option(
      '--timeout <seconds>',
      `how long to watch (default: ${TIMEOUT_DEFAULT_SECONDS})`,
      wholeNumber(1, TIMEOUT_MAX_SECONDS),
    )
    .action(async (revision: number | undefined, options: unknown) => {
      const flags = flagsSchema.parse(options)
      const shown = await show(flags, revision ?? 'latest', io).catch((err: unknown) => {
        throw err instanceof CliError ? new CliError(err.message, EXIT.usage) : err
      })
      setExitCode(shown.isComplete ? EXIT.ok : EXIT.failure)
    })
  withExitCodes(
    command,
    '0 applied everywhere, 1 not yet or not everywhere, 2 it could not be found out',
  )
  withExamples(withOutput(withAdminFlags(command)), [
    'quotaplane rollout status',
    'quotaplane rollout status 42 --watch --timeout 10 && echo applied everywhere',
  ])
}

/** The revision stays the one that was the newest at first: later ones are other rollouts. */
async function show(
  flags: z.infer<typeof flagsSchema>,
  asked: number | 'latest',
  io: Io,
): Promise<RolloutReply> {
  const client = adminOf(flags, io)
  const endMs = performance.now() + flags.timeout * 1_000
  let reply = await readRollout(client, asked)
  print(reply, flags, io)
  while (flags.watch && !reply.isComplete && performance.now() < endMs && !io.signal.aborted) {
    await delay(WATCH_EVERY_MS, undefined, { signal: io.signal }).catch(() => {})
    const next = await readAgain(client, reply, io)
    if (statesOf(next) !== statesOf(reply)) print(next, flags, io)
    reply = next
  }
  return reply
}

/** Whoever watches goes on while admin restarts: until the end of the time, what was seen last stands. */
async function readAgain(client: AdminClient, last: RolloutReply, io: Io): Promise<RolloutReply> {
  try {
    return await readRollout(client, last.revision)
  } catch (err) {
    if (!(err instanceof CliError) || io.signal.aborted) throw err
    say(io.err, `quotaplane: ${err.message}; trying again`)
    return last
  }
}

async function readRollout(
  client: AdminClient,
  revision: number | 'latest',
): Promise<RolloutReply> {
  const answer = await client.call({ method: 'GET', path: `/v1/rollouts/${revision}` })
  return parseReply(rolloutReplySchema, answer.body)
}

/** Watched or not it is a table for people: each change that is seen follows the one before. */
function print(reply: RolloutReply, flags: z.infer<typeof flagsSchema>, io: Io): void {
  const format = formatOf({ ...flags, watch: false }, io, 'table')
  io.out.write(rendered(rolloutView(reply), format, flags))
}

/** What a watcher waits for; ages change with each look. */
function statesOf({ regions }: RolloutReply): string {
  return JSON.stringify(
    regions.map(({ state, enforcers }) => [state, enforcers.map((one) => one.state)]),
  )
}

/** A rollout in every form that it is shown in. */
export function rolloutView(reply: RolloutReply): View {
  const { revision, regions } = reply
  const rows = regions.flatMap((region) => [
    [region.region, '', region.state, ...cellsOf(region)],
    ...region.enforcers.map((one) => ['', one.name, one.state, ...cellsOf(one)]),
    ...(region.unlistedEnforcers > 0 ? [['', `and ${region.unlistedEnforcers} more`]] : []),
  ])
  // Of others the reason says it.
  const silent = regions.filter((one) => one.unknownSince !== null && one.reason === null)
  return {
    data: reply,
    headers: ['region', 'enforcer', 'state', '>revision', 'since', 'why'],
    rows,
    names: [String(revision)],
    notes: [
      sentenceOf(reply),
      ...silent.map(({ region, unknownSince }) => `${region} was heard last at ${unknownSince}`),
    ],
  }
}

function sentenceOf({ revision, isComplete, isCompleteInReach }: RolloutReply): string {
  if (isComplete) return `revision ${revision} is applied everywhere`
  return isCompleteInReach
    ? `revision ${revision} is applied in every region that is heard, and not known elsewhere`
    : `revision ${revision} is not applied everywhere yet`
}

function cellsOf({
  appliedRevision,
  since,
  reason,
}: Pick<RegionRollout, 'appliedRevision' | 'since' | 'reason'>): readonly string[] {
  return [appliedRevision === null ? '' : String(appliedRevision), since ?? '', reason ?? '']
}

function revisionOf(text: string): number {
  const revision = Number(text)
  if (text !== '' && Number.isInteger(revision) && revision > 0) return revision
  throw new InvalidArgumentError('It must be the number of a revision.')
}
