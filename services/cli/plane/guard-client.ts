import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { PACKAGE_ROOT } from '../../../shared/runtime/assets.ts'

/** The launcher's side of the guard process; see guard.ts. */
export interface Guard {
  readonly pid: number
  /** From here on, `pid` is ended when the launcher goes. */
  watch(pid: number, signal: 'SIGTERM' | 'SIGINT'): void
  forget(pid: number): void
  /** From here on, `path` is removed when the launcher goes. */
  remove(path: string): void
  /** Ends the guard without clearing up, after the launcher has done so. */
  dismiss(): Promise<void>
}

/** Starts the guard. It must run compiled: a child of a test runner has no TypeScript loader. */
export function startGuard(): Guard {
  const script = join(PACKAGE_ROOT, 'dist/services/cli/plane/guard.js')
  const child = spawn(process.execPath, [script], {
    detached: true,
    stdio: ['pipe', 'ignore', 'ignore'],
  })
  child.on('error', () => {})
  child.stdin.on('error', () => {}) // A dead guard only means that nobody clears up after a kill -9.
  const exited = once(child, 'exit')
  const tell = (...command: readonly (string | number)[]): void => {
    child.stdin.write(`${JSON.stringify(command)}\n`)
  }
  return {
    pid: child.pid ?? 0,
    watch: (pid, signal) => tell('watch', pid, signal),
    forget: (pid) => tell('forget', pid),
    remove: (path) => tell('remove', path),
    async dismiss() {
      tell('dismiss')
      child.stdin.end()
      await exited
    },
  }
}
