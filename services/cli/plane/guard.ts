/**
 * The process that clears up when the launcher of a local plane ends without doing so itself.
 *
 * It reads commands from its standard input, one JSON array a line, and acts when the input ends, which the
 * kernel brings about however the launcher went (kill -9 included). It runs in a session of its own, so that
 * neither Ctrl-C nor a closed terminal reaches it. After `dismiss` it ends without doing anything.
 */
import { rmSync } from 'node:fs'
import { createInterface } from 'node:readline'
import { setTimeout as delay } from 'node:timers/promises'

/** Children get this long to end by themselves before they are killed. */
const GRACE_MS = 4_000
const POLL_MS = 50

const processes = new Map<number, NodeJS.Signals>()
const paths = new Set<string>()
let isDismissed = false

for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => {})

for await (const line of createInterface({ input: process.stdin })) obey(line)
if (!isDismissed) await clearUp()

function obey(line: string): void {
  const command: unknown = JSON.parse(line)
  if (!Array.isArray(command)) return
  const [verb, subject, signal] = command
  if (verb === 'watch') processes.set(Number(subject), signal === 'SIGINT' ? 'SIGINT' : 'SIGTERM')
  if (verb === 'forget') processes.delete(Number(subject))
  if (verb === 'remove') paths.add(String(subject))
  if (verb === 'dismiss') isDismissed = true
}

async function clearUp(): Promise<void> {
  for (const [pid, signal] of processes) send(pid, signal)
  const deadlineMs = performance.now() + GRACE_MS
  while ([...processes.keys()].some(isAlive) && performance.now() < deadlineMs) await delay(POLL_MS)
  for (const pid of processes.keys()) send(pid, 'SIGKILL')
  for (const path of paths) rmSync(path, { recursive: true, force: true, maxRetries: 5 })
}

function send(pid: number, signal: NodeJS.Signals | 0): boolean {
  try {
    process.kill(pid, signal)
    return true
  } catch {
    return false // It is gone, which is what is wanted.
  }
}

function isAlive(pid: number): boolean {
  return send(pid, 0)
}
