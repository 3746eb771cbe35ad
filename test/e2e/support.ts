import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmod, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import type { Collector } from '../../services/cli/demo/collector.ts'
import { type Load, offerLoad } from '../../services/cli/demo/load.ts'
import { measure } from '../../services/cli/demo/measure.ts'
import { startPlane } from '../../services/cli/plane/plane.ts'
import type { Plane } from '../../services/cli/plane/topology.ts'
import { runProgram } from '../../services/cli/program.ts'
import type { PolicyInput } from '../../shared/protocol/policy.ts'
import { PACKAGE_ROOT } from '../../shared/runtime/assets.ts'

export const CLI = join(PACKAGE_ROOT, 'dist/services/cli/main.js')

export const REGIONS = ['us-east-1', 'eu-west-1'] as const

export interface Finished {
  readonly exitCode: number | null
  readonly out: string
  readonly err: string
}

/** Runs `quotaplane` to its end. */
export async function quotaplane(
  args: readonly string[],
  options: { readonly env?: Readonly<Record<string, string>>; readonly input?: string } = {},
): Promise<Finished> {
  return await finish(spawnCli(args, options.env), options.input)
}

/** Runs a command in this process, which spares the start of another; for all but the first of a kind. */
export async function quotaplaneHere(
  args: readonly string[],
  options: { readonly env?: Readonly<Record<string, string>>; readonly input?: string } = {},
): Promise<Finished> {
  const written = { out: '', err: '' }
  const sink = (name: 'out' | 'err') => ({
    write: (text: string) => {
      written[name] += text
    },
    isTerminal: false,
    hasColour: false,
  })
  const exitCode = await runProgram(args, {
    out: sink('out'),
    err: sink('err'),
    env: options.env ?? {},
    readStdin: async () => options.input ?? '',
    signal: new AbortController().signal,
  })
  return { exitCode, ...written }
}

export function spawnCli(
  args: readonly string[],
  env: Readonly<Record<string, string>> = {},
): ChildProcess {
  return spawn(process.execPath, [CLI, ...args], {
    cwd: PACKAGE_ROOT,
    env: { ...process.env, ...env },
  })
}

/** Waits for the end of a process and keeps what it wrote. */
export async function finish(child: ChildProcess, input = ''): Promise<Finished> {
  let out = ''
  let err = ''
  child.stdout?.on('data', (chunk: Buffer) => {
    out += chunk.toString()
  })
  child.stderr?.on('data', (chunk: Buffer) => {
    err += chunk.toString()
  })
  child.stdin?.end(input)
  await once(child, 'close')
  return { exitCode: child.exitCode, out, err }
}

/** The first line that the process writes to its standard output. */
export async function firstLine(child: ChildProcess): Promise<string> {
  let err = ''
  child.stderr?.on('data', (chunk: Buffer) => {
    err += chunk.toString()
  })
  if (child.stdout === null) throw new Error('the process has no standard output')
  for await (const line of createInterface({ input: child.stdout })) return line
  throw new Error(`it ended without a line\n${err}`)
}

/** A folder that takes everything a process puts on disk, so that what it leaves there is seen. */
export async function temporaryFolder(): Promise<{
  readonly path: string
  readonly env: Readonly<Record<string, string>>
  remove(): Promise<void>
}> {
  const path = await mkdtemp(join(tmpdir(), 'quota-e2e-'))
  // PostgreSQL's account must be able to pass, or the launcher goes elsewhere.
  await chmod(path, 0o755)
  const remove = (): Promise<void> => rm(path, { recursive: true, force: true })
  return { path, env: { TMPDIR: path, XDG_RUNTIME_DIR: path }, remove }
}

export function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch {
    return false
  }
}

/** A plane inside the test, on ports that nobody else uses. */
export async function localPlane(
  options: { readonly regions?: readonly string[]; readonly linkDelayMs?: number } = {},
): Promise<Plane> {
  return await startPlane({
    regions: options.regions ?? REGIONS,
    linkDelayMs: options.linkDelayMs ?? 0,
    databaseUrl: null,
    ports: 'free',
    env: process.env,
    say: () => {},
    signal: new AbortController().signal,
  })
}

export const CAPACITY = 600
export const BURST = 60

/** A limit of its own for one scenario, so that scenarios share a plane and nothing else; `scale` 1 is CAPACITY. */
export function scenarioPolicy(name: string, scale = 1): PolicyInput {
  return {
    domain: 'e2e',
    name,
    description: '',
    match: [{ key: 'scenario', value: name }],
    onStoreFailure: 'deny',
    mode: 'strict',
    limits: [
      {
        name: 'per-second',
        algorithm: 'token_bucket',
        capacity: scale * CAPACITY,
        windowMs: 1_000,
        burst: scale * BURST,
        split: { [REGIONS[0]]: 60, [REGIONS[1]]: 40 },
        floorPercent: 2,
      },
    ],
  }
}

/** A load at a little more than the limit, in the given parts per region. */
export function offered(first: number, second: number, scale = 1): readonly number[] {
  const total = 1.2 * scale * CAPACITY
  return [(total * first) / 100, (total * second) / 100]
}

/** What happens to the plane at a time of the run. */
export interface PlaneEvent {
  readonly atMs: number
  readonly run: () => Promise<void> | void
}

/** Ends once the last run that was begun is warm. */
let warming = Promise.resolve()

/**
 * Drives one scenario: its own policy, a load, and what happens to the plane meanwhile.
 *
 * `events` run at their times of the run, one after the other. Of runs that are begun together one warms up at a time:
 * each goes on until the plane is quick, which none would be.
 */
export async function drive(
  plane: Plane,
  name: string,
  load: Load,
  options: { readonly events?: readonly PlaneEvent[]; readonly scale?: number } = {},
): Promise<Collector> {
  const { events = [], scale = 1 } = options
  const { signal } = new AbortController()
  const descriptors = [{ entries: [{ key: 'scenario', value: name }] }]
  const rule = {
    algorithm: 'token_bucket',
    capacity: scale * CAPACITY,
    windowMs: 1_000,
    burst: scale * BURST,
  } as const
  const isBefore = warming
  let isWarm = (): void => {}
  warming = new Promise((resolve) => {
    isWarm = resolve
  })
  await isBefore
  return await measure(
    {
      plane,
      regions: REGIONS,
      policies: [scenarioPolicy(name, scale)],
      probe: descriptors,
      limits: [{ name, rule, counterOf: () => '' }],
      endMs: load.endMs,
      screen: null,
      noteAt: () => '',
      signal,
    },
    async (sender, originMs) => {
      isWarm()
      const happening = runEvents(events, originMs)
      await offerLoad(load, sender, { originMs, client: name, descriptors, signal })
      await happening
    },
  ).finally(isWarm)
}

async function runEvents(events: readonly PlaneEvent[], originMs: number): Promise<void> {
  for (const { atMs, run } of events) {
    const waitMs = originMs + atMs - performance.now()
    await new Promise((resolve) => setTimeout(resolve, Math.max(0, waitMs)))
    await run()
  }
}
