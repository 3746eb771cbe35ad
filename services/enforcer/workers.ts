/**
 * Several enforcer processes behind one port, one a processor.
 *
 * The first process answers no check: it starts the others, which share its ports, starts one again that ended, and
 * passes a signal on. They share nothing else; each is an enforcer of its own to the region, by its own id.
 */
import cluster, { type Worker } from 'node:cluster'
import type { Lifecycle } from '../../shared/runtime/lifecycle.ts'
import type { Logger } from '../../shared/runtime/logger.ts'
import { joinFamilies, type ServiceRegistry } from '../../shared/runtime/metrics.ts'

/** One that ends at once again and again must not keep the processor from the others. */
const RESTART_MS_MIN = 100
const RESTART_MS_MAX = 5_000

/** One that lived this long had started well. */
const STARTED_WELL_MS = 10_000

/** How long the others may take to say their metrics; a scrape goes on without one that is busy. */
const METRICS_MS = 1_000

/** Tells a worker its number, which its metrics carry. */
export const WORKER_VARIABLE = 'QUOTAPLANE_WORKER'

type Message =
  | { readonly kind: 'stop' }
  /** Certificates were replaced: what SIGHUP says to a process alone. */
  | { readonly kind: 'renew' }
  /** A worker asks for the metrics of all; the first process asks each for its own. */
  | { readonly kind: 'ask-all' | 'ask-one'; readonly id: number }
  | { readonly kind: 'all'; readonly id: number; readonly families: string[] }
  | { readonly kind: 'one'; readonly id: number; readonly families: string[] }

/** Starts `count` workers, and keeps as many until the service shuts down. */
export async function keepWorkers(options: {
  readonly count: number
  readonly log: Logger
  readonly life: Lifecycle
}): Promise<void> {
  const { count, log, life } = options
  const timers = new Set<NodeJS.Timeout>()
  const start = (number: number, restartMs: number): void => {
    const startedMs = performance.now()
    const worker = cluster.fork({ [WORKER_VARIABLE]: String(number) })
    worker.on('message', (message: Message) => answer(worker, message))
    worker.once('exit', (code, signal) => {
      if (!life.isRunning()) return
      const delayMs = performance.now() - startedMs > STARTED_WELL_MS ? RESTART_MS_MIN : restartMs
      log.error({ worker: number, code, signal, delayMs }, 'worker ended; starting another')
      const timer = setTimeout(() => {
        timers.delete(timer)
        start(number, Math.min(2 * delayMs, RESTART_MS_MAX))
      }, delayMs)
      timers.add(timer)
    })
  }
  await life.acquire(
    'workers',
    () => {
      for (let number = 1; number <= count; number++) start(number, RESTART_MS_MIN)
    },
    async () => {
      for (const timer of timers) clearTimeout(timer)
      await Promise.all(workers().map(stopped))
    },
  )
  process.on('SIGHUP', () => {
    for (const worker of workers()) {
      if (worker.isConnected()) worker.send({ kind: 'renew' } satisfies Message)
    }
  })
  log.info({ workers: count }, 'workers started')
}

function workers(): readonly Worker[] {
  return Object.values(cluster.workers ?? {}).filter((one) => one !== undefined)
}

function stopped(worker: Worker): Promise<void> {
  return new Promise((resolve) => {
    worker.once('exit', () => resolve())
    if (worker.isDead()) resolve()
    else worker.send({ kind: 'stop' } satisfies Message)
  })
}

const gathering = new Map<number, (families: string[]) => void>()
let asked = 0

function answer(worker: Worker, message: Message): void {
  if (message.kind === 'one') gathering.get(message.id)?.(message.families)
  if (message.kind !== 'ask-all') return
  void gather().then((families) => {
    if (!worker.isConnected()) return
    worker.send({ kind: 'all', id: message.id, families } satisfies Message)
  })
}

async function gather(): Promise<string[]> {
  const id = ++asked
  const all: string[][] = []
  const expected = workers().filter((one) => one.isConnected())
  const isWhole = new Promise<void>((resolve) => {
    const timer = setTimeout(resolve, METRICS_MS)
    gathering.set(id, (families) => {
      all.push(families)
      if (all.length < expected.length) return
      clearTimeout(timer)
      resolve()
    })
  })
  for (const one of expected) one.send({ kind: 'ask-one', id } satisfies Message)
  await isWhole
  gathering.delete(id)
  return joinFamilies(all)
}

/** Heeds the first process: stops when it says so or is gone, and tells it what is counted here. SIGHUP must be heeded by then. */
export function obeyFirstProcess(registry: ServiceRegistry): void {
  const stop = (): void => void process.kill(process.pid, 'SIGTERM')
  process.once('disconnect', stop)
  process.on('message', (message: Message) => {
    if (message.kind === 'stop') {
      process.off('disconnect', stop)
      stop()
    }
    if (message.kind === 'renew') process.kill(process.pid, 'SIGHUP')
    if (message.kind === 'ask-one') {
      void registry.families().then((families) => {
        process.send?.({ kind: 'one', id: message.id, families } satisfies Message)
      })
    }
  })
}

/** The metrics of all workers, each with its number as the label `worker`. */
export function metricsOfAll(registry: ServiceRegistry): Promise<string> {
  const id = ++asked
  return new Promise((resolve) => {
    const listen = (message: Message): void => {
      if (message.kind !== 'all' || message.id !== id) return
      process.off('message', listen)
      resolve(registry.textOf(message.families))
    }
    process.on('message', listen)
    process.send?.({ kind: 'ask-all', id } satisfies Message)
  })
}
