import { connect } from 'node:net'
import { createInterface } from 'node:readline'

/** What a Redis is told from now on, by whomever. */
export interface RedisMonitor {
  /** Each command with its arguments, in order. What is no text is as Redis writes it, such as `\x00`. */
  readonly seen: readonly (readonly string[])[]
  close(): void
}

/**
 * Listens to a Redis on a unix socket without a password.
 *
 * The client takes the first commands for replies where they come in one piece with the answer to MONITOR, as they do
 * while others are at work, and then loses its place.
 */
export async function monitorRedis(socketPath: string): Promise<RedisMonitor> {
  const socket = connect(socketPath)
  const seen: string[][] = []
  await new Promise<void>((resolve, reject) => {
    socket.once('error', reject)
    socket.once('close', () => reject(new Error('Redis closed the connection')))
    createInterface(socket).on('line', (line) => {
      if (line === '+OK') resolve()
      else if (line.startsWith('-')) reject(new Error(line))
      else seen.push(argumentsOf(line))
    })
    socket.write('MONITOR\r\n')
  })
  return { seen, close: () => socket.destroy() }
}

/** `+1.5 [0 unix:/redis.sock] "set" "name" "a \"value\""`. */
function argumentsOf(line: string): string[] {
  return [...line.matchAll(/"((?:[^"\\]|\\.)*)"/g)].map(([, quoted = '']) =>
    quoted.replace(/\\(["\\])/g, '$1'),
  )
}
