import type { Logger } from './logger.ts'

export interface LifecycleOptions {
  readonly log: Logger
  /** One bound for everything that shutting down does, waits included. */
  readonly deadlineMs: number
}

export interface Lifecycle {
  /** True until shutting down has begun. Readiness follows it. */
  isRunning(): boolean
  /**
   * Acquires a resource and keeps its closer; closers run in reverse order. Once shutting down has begun it
   * rejects, and closes what it was opening, so that a start cut short leaves nothing behind.
   */
  acquire<T>(
    name: string,
    open: () => Promise<T> | T,
    close: (value: T) => Promise<unknown> | unknown,
  ): Promise<T>
  /** Closes everything; resolves with the names of what was still open at the deadline. Idempotent. */
  shutdown(): Promise<readonly string[]>
}

/** A stack of closers: a failed start and a signal release what was acquired, in reverse, under one deadline. */
export function createLifecycle(options: LifecycleOptions): Lifecycle {
  const closers: { name: string; close: () => Promise<unknown> | unknown }[] = []
  let shutdown: Promise<readonly string[]> | undefined
  return {
    isRunning: () => shutdown === undefined,
    async acquire(name, open, close) {
      if (shutdown !== undefined) throw new Error(`not opening ${name}: shutting down`)
      const value = await open()
      if (shutdown !== undefined) {
        await close(value)
        throw new Error(`closed ${name} again: shutting down`)
      }
      closers.push({ name, close: () => close(value) })
      return value
    },
    shutdown() {
      shutdown ??= closeAll(closers, options)
      return shutdown
    },
  }
}

async function closeAll(
  closers: { name: string; close: () => Promise<unknown> | unknown }[],
  options: LifecycleOptions,
): Promise<readonly string[]> {
  const deadline = timeout(options.deadlineMs)
  for (let closer = closers.at(-1); closer !== undefined; closer = closers.at(-1)) {
    const { name, close } = closer
    const closed = Promise.resolve()
      .then(close)
      .catch((err: unknown) => options.log.warn({ err, resource: name }, 'closing failed'))
    if ((await Promise.race([closed, deadline.expired])) === 'expired') break
    closers.pop()
  }
  deadline.cancel()
  return closers.map((closer) => closer.name)
}

function timeout(ms: number): { readonly expired: Promise<'expired'>; cancel(): void } {
  let timer: NodeJS.Timeout | undefined
  const expired = new Promise<'expired'>((resolve) => {
    timer = setTimeout(() => resolve('expired'), ms)
  })
  return { expired, cancel: () => clearTimeout(timer) }
}

/**
 * Runs a service's `start` until one of `signals`: the first shuts down gracefully, the second ends
 * the process at once. A failed start releases what it acquired and exits with 1.
 */
export async function runService(
  life: Lifecycle,
  log: Logger,
  start: () => Promise<void>,
  signals: readonly NodeJS.Signals[] = ['SIGINT', 'SIGTERM'],
): Promise<void> {
  let isStopping = false
  const stop = (exitCode: number): void => {
    if (isStopping) process.exit(1)
    isStopping = true
    void life.shutdown().then((open) => {
      if (open.length > 0) log.error({ open }, 'shutdown deadline passed')
      process.exit(open.length > 0 ? 1 : exitCode)
    })
  }
  for (const signal of signals) process.on(signal, () => stop(0))
  process.on('uncaughtException', (err) => {
    log.fatal({ err }, 'uncaught exception')
    stop(1)
  })
  process.on('unhandledRejection', (err) => {
    log.fatal({ err }, 'unhandled rejection')
    stop(1)
  })
  try {
    await start()
  } catch (err) {
    // A signal during the start makes it fail, which is no failure and must not cut the shutdown short.
    if (isStopping) return
    log.fatal({ err }, 'start failed')
    stop(1)
  }
}
