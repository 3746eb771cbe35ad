import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import type { Guard } from './guard-client.ts'

/** Log of a child kept in memory for failure messages; the oldest text is dropped beyond this. */
const LOG_CHARS_MAX = 200_000

/** A child that has not said it is ready after this is reported with the end of its log. */
const READY_TIMEOUT_MS = 30_000

/** A child that ignores its stop signal for this long is killed. Longer than a service's own shutdown deadline. */
const STOP_TIMEOUT_MS = 12_000

/** Lines of a child's log that a failure message shows. */
const LOG_TAIL_LINES = 15

export interface ChildOptions {
  /** What people call it, such as `redis of us-east-1`. */
  readonly name: string
  readonly command: string
  readonly args: readonly string[]
  readonly env: Readonly<Record<string, string | undefined>>
  readonly cwd: string
  /** Matched against the child's output; its first group is the child's `readyValue`. */
  readonly ready: RegExp
  /** Postgres waits for its clients on SIGTERM; SIGINT ends it at once. */
  readonly stopSignal?: 'SIGTERM' | 'SIGINT'
  readonly account?: { readonly uid: number; readonly gid: number } | undefined
}

/** The end of a log, indented below a message. */
function tailOf(log: string): string {
  const lines = log.trim().split('\n').slice(-LOG_TAIL_LINES)
  return lines.join('') === '' ? '' : `; the end of its log:\n  ${lines.join('\n  ')}`
}

/** Thrown when a child ends or stays silent instead of becoming ready. */
export class ChildFailure extends Error {
  override readonly name = 'ChildFailure'
  /** True when its port was taken between choosing and binding it. */
  readonly isPortTaken: boolean

  constructor(what: string, log: string) {
    super(`${what}${tailOf(log)}`)
    this.isPortTaken = /address already in use|EADDRINUSE/i.test(log)
  }
}

/**
 * One process of the local plane.
 *
 * It runs in a session of its own, so that Ctrl-C in the terminal reaches only the launcher, which stops its
 * children in order. The guard knows its pid for as long as it runs.
 */
export class Child {
  readonly name: string
  readonly #options: ChildOptions
  readonly #guard: Guard
  #process: ChildProcess | undefined
  #log = ''
  #isStopping = false
  #onUnexpectedExit: ((child: Child, how: string) => void) | undefined

  constructor(options: ChildOptions, guard: Guard) {
    this.name = options.name
    this.#options = options
    this.#guard = guard
  }

  /** Pid of the running process; 0 while none runs. */
  get pid(): number {
    return this.isRunning ? (this.#process?.pid ?? 0) : 0
  }

  get isRunning(): boolean {
    const child = this.#process
    return child?.pid !== undefined && child.exitCode === null && child.signalCode === null
  }

  /** A failure of this child, told with the end of its log. */
  failure(what: string): ChildFailure {
    return new ChildFailure(`${this.name} ${what}`, this.#log)
  }

  /** Called when the process ends although neither `stop` nor `kill` was called. */
  onUnexpectedExit(handle: (child: Child, how: string) => void): void {
    this.#onUnexpectedExit = handle
  }

  /** Starts the process and resolves with the first group of `ready`; rejects with `ChildFailure`. */
  async start(): Promise<string> {
    this.#log = ''
    this.#isStopping = false
    const { command, args, env, cwd, account } = this.#options
    const child = spawn(command, args, {
      ...account,
      cwd,
      env,
      detached: true,
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    this.#process = child
    if (child.pid !== undefined) this.#guard.watch(child.pid, this.#options.stopSignal ?? 'SIGTERM')
    try {
      return await this.#untilReady(child)
    } catch (err) {
      await this.kill('SIGKILL')
      throw err
    }
  }

  /** Asks the process to end, and kills it when it does not. Idempotent. */
  async stop(): Promise<void> {
    await this.#end(this.#options.stopSignal ?? 'SIGTERM')
  }

  /** Sends a signal as an accident would, and waits for the end. */
  async kill(signal: 'SIGKILL' | 'SIGTERM' = 'SIGKILL'): Promise<void> {
    await this.#end(signal)
  }

  /** Freezes the process: its sockets stay open and nothing answers. */
  pause(): void {
    this.#process?.kill('SIGSTOP')
  }

  resume(): void {
    this.#process?.kill('SIGCONT')
  }

  /** Ends the process if it runs, and starts it again with the same arguments and ports. */
  async restart(): Promise<void> {
    await this.stop()
    await this.start()
  }

  async #end(signal: NodeJS.Signals): Promise<void> {
    const child = this.#process
    this.#isStopping = true
    if (child === undefined || !this.isRunning) return
    const exited = once(child, 'exit')
    const timer = setTimeout(() => child.kill('SIGKILL'), STOP_TIMEOUT_MS)
    child.kill(signal)
    await exited
    clearTimeout(timer)
  }

  #untilReady(child: ChildProcess): Promise<string> {
    const { name, command, ready } = this.#options
    return new Promise((resolve, reject) => {
      let isSettled = false
      const timer = setTimeout(() => {
        fail(`${name} was not ready in ${READY_TIMEOUT_MS} ms`, this.#log)
      }, READY_TIMEOUT_MS)
      const settle = (): void => {
        isSettled = true
        clearTimeout(timer)
      }
      const fail = (what: string, log: string): void => {
        settle()
        reject(new ChildFailure(what, log))
      }
      const read = (chunk: Buffer): void => {
        this.#log = (this.#log + chunk.toString()).slice(-LOG_CHARS_MAX)
        const match = isSettled ? null : ready.exec(this.#log)
        if (match === null) return
        settle()
        resolve(match[1] ?? '')
      }
      child.stdout?.on('data', read)
      child.stderr?.on('data', read)
      child.once('error', (err) => fail(`${name} could not be started (${err.message})`, command))
      child.once('close', (code, signal) => {
        const how = signal ?? `exit code ${code}`
        this.#hasEnded(child, how)
        fail(`${name} ended with ${how}`, this.#log)
      })
    })
  }

  #hasEnded(child: ChildProcess, how: string): void {
    if (child.pid !== undefined) this.#guard.forget(child.pid)
    if (!this.#isStopping && child === this.#process) this.#onUnexpectedExit?.(this, how)
  }
}
