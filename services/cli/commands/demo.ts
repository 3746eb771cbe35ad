import type { Command } from 'commander'
import { z } from 'zod'
import { announceReplay, planReplay, type ReplayResult, runReplay } from '../demo/replay.ts'
import { announceShift, runShift, type ShiftResult } from '../demo/shift.ts'
import { summariseReplay, summariseShift } from '../demo/summary.ts'
import { readTrace, type Trace } from '../demo/trace.ts'
import { REGION_FROM_HELP, regionRuleOf } from '../demo/trace-region.ts'
import { CliError, EXIT } from '../errors.ts'
import { type Io, type Sink, say } from '../io.ts'
import { startPlane } from '../plane/plane.ts'
import { DEFAULT_REGIONS, LOCAL_REGIONS_MAX, type Plane } from '../plane/topology.ts'
import { positiveNumber, printJson, regionList, wholeNumber, withExamples } from './common.ts'

/** Long enough to see the shares settle twice, short enough to watch. */
const DEFAULT_SECONDS = 40

/** More checks than this without a usable answer, and the figures are not worth printing as a success. */
const FAILED_MAX = 0.01

const flagsSchema = z.object({
  trace: z.string().optional(),
  speed: z.number().optional(),
  regionFrom: z.string().optional(),
  regions: z.array(z.string()).readonly(),
  seconds: z.number(),
  json: z.boolean().default(false),
})
type DemoFlags = z.infer<typeof flagsSchema>

type Outcome = ShiftResult | ReplayResult

/** Adds `quotaplane demo`. */
export function addDemoCommand(program: Command, io: Io): void {
  const command = program
    .command('demo')
    .description('bring up a plane, drive it with real checks, and measure what it does')
    .option('--seconds <n>', 'length of the demo', wholeNumber(10, 3_600), DEFAULT_SECONDS)
    .option(
      '--regions <names>',
      'regions, separated by commas',
      regionList(LOCAL_REGIONS_MAX),
      DEFAULT_REGIONS,
    )
    .option(
      '--trace <file>',
      'replay recorded requests: CSV (time_ms,region,client) or an access log',
    )
    .option(
      '--speed <n>',
      'replay this many times as fast (default: about 40 s in all)',
      positiveNumber,
    )
    .option('--region-from <rule>', REGION_FROM_HELP)
    .option('--json', 'print one last line with the figures; progress goes to stderr')
    .action(async (options: unknown) => {
      await demo(flagsSchema.parse(options), io)
    })
  withExamples(command, [
    'quotaplane demo',
    'quotaplane demo --json --seconds 20',
    'quotaplane demo --trace services/cli/demo/sample-trace.csv',
    'quotaplane demo --trace access.log --region-from hash --speed 600',
  ])
}

async function demo(flags: DemoFlags, io: Io): Promise<void> {
  const screen = flags.json ? io.err : io.out
  const trace = await traceOf(flags)
  const outcome = await withPlane(trace?.regions ?? flags.regions, io, (plane) =>
    trace === null
      ? driveShift(plane, flags, screen, io.signal)
      : driveReplay(plane, trace, flags, screen, io.signal),
  )
  if (flags.json) printJson(io, outcome.report)
  judge(outcome)
}

async function traceOf(flags: DemoFlags): Promise<Trace | null> {
  if (flags.trace === undefined) {
    if (flags.speed !== undefined || flags.regionFrom !== undefined) {
      throw new CliError('--speed and --region-from belong to --trace', EXIT.usage)
    }
    return null
  }
  const rule =
    flags.regionFrom === undefined ? null : await regionRuleOf(flags.regionFrom, flags.regions)
  return await readTrace(flags.trace, rule)
}

async function withPlane(
  regions: readonly string[],
  io: Io,
  work: (plane: Plane) => Promise<Outcome>,
): Promise<Outcome> {
  const plane = await startPlane({
    regions,
    linkDelayMs: 0,
    databaseUrl: io.env['DATABASE_URL'] || null,
    ports: 'usual',
    env: io.env,
    say: (line) => say(io.err, line),
    signal: io.signal,
  })
  try {
    return await work(plane)
  } finally {
    await plane.stop()
  }
}

async function driveShift(
  plane: Plane,
  flags: DemoFlags,
  screen: Sink,
  signal: AbortSignal,
): Promise<Outcome> {
  const { seconds } = flags
  const regions = plane.regions.map(({ region }) => region)
  say(screen, `\n${announceShift(regions, seconds)}\n`)
  const result = await runShift(plane, { seconds, screen, signal })
  say(screen, `\n${summariseShift(result, regions)}`)
  return result
}

async function driveReplay(
  plane: Plane,
  trace: Trace,
  flags: DemoFlags,
  screen: Sink,
  signal: AbortSignal,
): Promise<Outcome> {
  const plan = planReplay(trace, flags.speed ?? null)
  say(screen, `\n${announceReplay(trace, plan)}\n`)
  const result = await runReplay(plane, trace, plan, { screen, signal })
  say(screen, `\n${summariseReplay(result)}`)
  return result
}

/** The exit code says whether the promise was kept. */
function judge({ report, failed }: Outcome): void {
  if (report.overshoot > 0) throw new CliError('a limit was exceeded')
  if (failed > FAILED_MAX * (report.checks + failed)) {
    throw new CliError(
      `${failed} checks had no usable answer: this machine is too busy, or a part failed`,
    )
  }
}
