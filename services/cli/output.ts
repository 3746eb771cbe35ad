/**
 * How a command that lists or shows something prints it: `-o table|json|yaml|name`, `--no-headers`, `--watch`.
 *
 * A command builds one `View` and calls `show`; it never looks at the form it is asked for.
 */
import { setTimeout as delay } from 'node:timers/promises'
import { type Command, InvalidArgumentError, Option } from 'commander'
import { stringify } from 'yaml'
import { z } from 'zod'
import { unreachable } from '../../shared/core/assert.ts'
import { CliError, EXIT } from './errors.ts'
import { type Io, say } from './io.ts'
import { type Live, Pulse } from './pulse.ts'
import { table, visible } from './table.ts'

export const OUTPUT_FORMATS = ['table', 'json', 'yaml', 'name'] as const
export type OutputFormat = (typeof OUTPUT_FORMATS)[number]

/** Seconds between two looks: more often than a region reports shows nothing more, and a day is no watching. */
const INTERVAL_S_MIN = 1
const INTERVAL_S_MAX = 3_600

/** Flags that `withOutput` and `withWatch` add; extend `adminFlags` by their shape. */
export const outputFlags = z.object({
  json: z.boolean().default(false),
  output: z.enum(OUTPUT_FORMATS).optional(),
  headers: z.boolean().default(true),
  watch: z.boolean().default(false),
  interval: z.number().optional(),
})
export type OutputFlags = Readonly<z.infer<typeof outputFlags>>

/** One thing to show, in every form that it can be asked for. */
export interface View {
  /** For json and yaml. */
  readonly data: unknown
  /** Titles of the table's columns; `>` aligns one to the right. */
  readonly headers: readonly string[]
  readonly rows: readonly (readonly string[])[]
  /** What other commands call each thing shown, for scripts. */
  readonly names: readonly string[]
  /** Sentences below the table. */
  readonly notes?: readonly string[]
}

export interface ShowOptions {
  /** Form where none is asked for. */
  readonly usual?: OutputFormat
  /** What is watched changes with these events of admin; absent: it is looked at by the clock. */
  readonly live?: Live
}

/** Adds -o, --no-headers and, where it is not there yet, --json. */
export function withOutput(command: Command): Command {
  if (!command.options.some(({ long }) => long === '--json')) {
    command.option('--json', 'print JSON on one line')
  }
  return command
    .addOption(new Option('-o, --output <format>', 'how to print it').choices(OUTPUT_FORMATS))
    .option('--no-headers', 'leave the titles of the table out')
}

/** Adds --watch and --interval. */
export function withWatch(command: Command): Command {
  return command
    .option('--watch', 'show it again and again, until Ctrl-C; JSON lines where nobody watches')
    .option(
      '--interval <seconds>',
      'least time between two looks (with --watch; default: with every change)',
      intervalOf,
    )
}

function intervalOf(text: string): number {
  const value = Number(text)
  if (value >= INTERVAL_S_MIN && value <= INTERVAL_S_MAX) return value
  throw new InvalidArgumentError(
    `It must be a number of seconds from ${INTERVAL_S_MIN} to ${INTERVAL_S_MAX}.`,
  )
}

/**
 * Prints what `read` gives, once, or with --watch until the process is told to stop, which is then no failure.
 *
 * While watching, a look that fails is told on stderr and the next one is tried; the first must succeed.
 */
export async function show(
  io: Io,
  flags: OutputFlags,
  read: () => Promise<View> | View,
  { usual = 'table', live }: ShowOptions = {},
): Promise<void> {
  const format = formatOf(flags, io, usual)
  if (!flags.watch) {
    io.out.write(rendered(await read(), format, flags))
    return
  }
  const draw = (view: View): void => drawWatched(io, format, rendered(view, format, flags))
  const pulse = new Pulse({ live, intervalS: flags.interval, signal: io.signal })
  try {
    draw(await read())
    while (await pulse.next()) await look(io, read, draw)
  } catch (err) {
    if (!io.signal.aborted) throw err
  } finally {
    pulse.close()
  }
}

/** A watched view starts at the top of a terminal again; elsewhere each follows the one before. */
export function drawWatched(io: Io, format: OutputFormat, text: string): void {
  if (io.out.isTerminal) io.out.write(`\u001b[2J\u001b[H${text}`)
  else io.out.write(format === 'yaml' ? `---\n${text}` : text)
}

/** The form that is asked for; a watched view in a file is for programs, so it is JSON unless something else is said. */
export function formatOf(flags: OutputFlags, io: Io, usual: OutputFormat): OutputFormat {
  if (flags.json && flags.output !== undefined && flags.output !== 'json') {
    throw new CliError(`give --json or -o ${flags.output}, not both`, EXIT.usage)
  }
  if (flags.output !== undefined) return flags.output
  if (flags.json || (flags.watch && !io.out.isTerminal)) return 'json'
  return usual
}

/** The text of a view in one form, its last line ended. */
export function rendered(
  view: View,
  format: OutputFormat,
  { headers }: Pick<OutputFlags, 'headers'>,
): string {
  switch (format) {
    case 'json':
      return `${JSON.stringify(view.data)}\n`
    case 'yaml':
      // Long values stay on their line, as programs and people search for them.
      return stringify(view.data, { lineWidth: 0 })
    case 'name':
      return ended(view.names)
    case 'table': {
      const lines = table(view.headers, view.rows)
      return ended([...(headers ? lines : lines.slice(1)), ...(view.notes ?? []).map(visible)])
    }
    default:
      return unreachable(format)
  }
}

/** Waits; false once the process is to stop. */
export async function paused(seconds: number, signal: AbortSignal): Promise<boolean> {
  await delay(seconds * 1_000, undefined, { signal }).catch(() => {
    // Aborted: the answer says so.
  })
  return !signal.aborted
}

async function look(
  io: Io,
  read: () => Promise<View> | View,
  draw: (view: View) => void,
): Promise<void> {
  try {
    draw(await read())
  } catch (err) {
    if (!(err instanceof CliError) || io.signal.aborted) throw err
    say(io.err, `quotaplane: ${err.message}; trying again`)
  }
}

function ended(lines: readonly string[]): string {
  return lines.length === 0 ? '' : `${lines.join('\n')}\n`
}
