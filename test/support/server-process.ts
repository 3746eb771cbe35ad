import { type ChildProcess, type SpawnOptions, spawn } from 'node:child_process'

/** Server log kept for failure messages; the oldest text is dropped beyond this. */
const LOG_CHARS_MAX = 1_000_000

/** A server that has not said it is ready after this is reported with its log instead of a bare time-out. */
const READY_TIMEOUT_MS = 30_000

/** A server that ignores its stop signal for this long is killed, so that a run never leaves it behind. */
const STOP_TIMEOUT_MS = 10_000

export interface ServerProcess {
  readonly child: ChildProcess
  log(): string
  /** Freezes the process: its sockets stay open and nothing answers. */
  pause(): void
  resume(): void
  stop(signal?: NodeJS.Signals): Promise<void>
}

/** Starts a server and resolves once its output contains `readyText`; rejects with its log if it exits first. */
export function startServer(
  command: string,
  args: readonly string[],
  readyText: string,
  options: SpawnOptions = {},
): Promise<ServerProcess> {
  const child = spawn(command, args, { ...options, stdio: ['ignore', 'pipe', 'pipe'] })
  let log = ''
  const exited = new Promise<number | null>((resolve) => child.once('exit', resolve))
  const killWithUs = (): void => void child.kill('SIGKILL')
  process.once('exit', killWithUs)
  void exited.then(() => process.off('exit', killWithUs))
  const server: ServerProcess = {
    child,
    log: () => log,
    pause: () => void child.kill('SIGSTOP'),
    resume: () => void child.kill('SIGCONT'),
    async stop(signal = 'SIGTERM') {
      child.kill('SIGCONT')
      child.kill(signal)
      const kill = setTimeout(() => child.kill('SIGKILL'), STOP_TIMEOUT_MS)
      await exited
      clearTimeout(kill)
    },
  }
  return new Promise((resolve, reject) => {
    const fail = (reason: string): void => {
      clearTimeout(timer)
      reject(new Error(`${command} ${reason}\n${log}`))
    }
    const timer = setTimeout(() => {
      child.kill('SIGKILL')
      fail(`was not ready after ${READY_TIMEOUT_MS} ms`)
    }, READY_TIMEOUT_MS)
    child.once('error', (err) => fail(`could not be started: ${err.message}`))
    void exited.then((code) => fail(`exited with ${code}`))
    const read = (chunk: Buffer): void => {
      log = (log + chunk.toString()).slice(-LOG_CHARS_MAX)
      if (!log.includes(readyText)) return
      clearTimeout(timer)
      resolve(server)
    }
    child.stdout?.on('data', read)
    child.stderr?.on('data', read)
  })
}
