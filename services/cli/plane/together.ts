import { chmod, mkdir, rm } from 'node:fs/promises'
import type { Child } from './child.ts'
import { createPlaneFolder } from './folder.ts'
import { type Guard, startGuard } from './guard-client.ts'
import { type PortChoice, Ports } from './ports.ts'
import type { Launch } from './servers.ts'

export interface TogetherOptions {
  readonly ports: PortChoice
  /** The environment that children inherit. */
  readonly env: Readonly<Record<string, string | undefined>>
  /** Abandons a start under way. */
  readonly signal: AbortSignal
  /** Where everything on disk goes and stays; null takes a folder that goes with the processes. */
  readonly folder: string | null
  /** Done last, after every process has ended. */
  readonly close?: () => Promise<void>
}

/** Processes that were started together, and end together. */
export interface Together {
  /** Folder of everything that they keep on disk. */
  readonly folder: string
  /** Called when a part ends although nobody asked it to. */
  onUnexpectedExit(handle: (child: Child, how: string) => void): void
  /** From here on, `path` is removed with them, also when the launcher is killed. */
  removeOnStop(path: string): void
  /** Ends every process and removes every file that is not to stay. Idempotent. */
  stop(): Promise<void>
}

/**
 * Runs `start`, and keeps the children that it launches until `stop`.
 *
 * A start that fails or is abandoned leaves nothing behind. If this process is killed, the guard ends the children and
 * removes the files.
 */
export async function startTogether<T extends object>(
  options: TogetherOptions,
  start: (launch: Launch) => Promise<T>,
): Promise<T & Together> {
  const { signal } = options
  const guard = startGuard()
  const children = new Set<Child>()
  const paths: string[] = []
  const stop = onceOnly(() => stopAll({ children, paths, guard, close: options.close }))
  const abandon = (): void => {
    // Ending the children makes the starts under way fail at once instead of at their time-out.
    for (const child of children) void child.stop()
  }
  signal.addEventListener('abort', abandon, { once: true })
  const removeOnStop = (path: string): void => {
    paths.push(path)
    guard.remove(path)
  }
  try {
    const folder = await openFolder(options.folder, removeOnStop)
    const started = await start({
      guard,
      ports: new Ports(options.ports),
      folder,
      env: options.env,
      adopt(child) {
        signal.throwIfAborted()
        children.add(child)
      },
    })
    return {
      ...started,
      folder,
      stop,
      removeOnStop,
      onUnexpectedExit(handle) {
        for (const child of children) child.onUnexpectedExit(handle)
      },
    }
  } catch (err) {
    await stop()
    throw err
  } finally {
    signal.removeEventListener('abort', abandon)
  }
}

async function openFolder(
  given: string | null,
  removeOnStop: (path: string) => void,
): Promise<string> {
  if (given === null) {
    const folder = await createPlaneFolder()
    removeOnStop(folder)
    return folder
  }
  const created = await mkdir(given, { recursive: true })
  // PostgreSQL, which runs under an account of its own where root starts it, has to pass.
  if (created !== undefined) await chmod(given, 0o711)
  return given
}

async function stopAll(parts: {
  readonly children: ReadonlySet<Child>
  readonly paths: readonly string[]
  readonly guard: Guard
  readonly close: (() => Promise<void>) | undefined
}): Promise<void> {
  const servers = [...parts.children].filter(({ name }) => /^(redis|nats|postgres)/.test(name))
  const services = [...parts.children].filter((child) => !servers.includes(child))
  // Services go first: they take leave of their servers.
  await Promise.all(services.map((child) => child.stop()))
  await Promise.all(servers.map((child) => child.stop()))
  await parts.close?.()
  for (const path of parts.paths) await rm(path, { recursive: true, force: true, maxRetries: 5 })
  await parts.guard.dismiss()
}

/** Like Promise.all, but settles only when all have: a start must not go on behind a stop. */
export async function allOrFirstFailure<const T extends readonly Promise<unknown>[]>(
  work: T,
): Promise<{ -readonly [K in keyof T]: Awaited<T[K]> }> {
  await Promise.allSettled(work)
  return await Promise.all(work)
}

function onceOnly(work: () => Promise<void>): () => Promise<void> {
  let running: Promise<void> | undefined
  return () => {
    running ??= work()
    return running
  }
}
