import { once } from 'node:events'
import { type AddressInfo, createServer } from 'node:net'
import { ChildFailure } from './child.ts'

/** Ports after the usual one that are tried before any free port is taken. */
const NEIGHBOURS_MAX = 20

/** Starts of one child on fresh ports, when others take a port between our choosing and its binding. */
const ATTEMPTS_MAX = 5

/** `usual`: the well-known port or one of its neighbours, for people; `free`: any, for tests beside each other. */
export type PortChoice = 'usual' | 'free'

/** Chooses loopback ports that nothing listens on, each given out once, to callers in the order of their calls. */
export class Ports {
  readonly #choice: PortChoice
  readonly #given = new Set<number>()
  #last: Promise<unknown> = Promise.resolve()

  constructor(choice: PortChoice) {
    this.#choice = choice
  }

  take(usual: number): Promise<number> {
    const taken = this.#last.then(() => this.#choose(usual))
    this.#last = taken.catch(() => {})
    return taken
  }

  async #choose(usual: number): Promise<number> {
    const candidates =
      this.#choice === 'usual' ? Array.from({ length: NEIGHBOURS_MAX }, (_, i) => usual + i) : []
    for (const port of candidates) {
      if (!this.#given.has(port) && (await canBind(port)) !== null) return this.#give(port)
    }
    for (;;) {
      const port = await canBind(0)
      if (port === null) throw new Error('the system gives no free port on 127.0.0.1')
      if (!this.#given.has(port)) return this.#give(port)
    }
  }

  #give(port: number): number {
    this.#given.add(port)
    return port
  }
}

/** The port that could be bound on loopback, or null. */
async function canBind(port: number): Promise<number | null> {
  const server = createServer()
  try {
    server.listen({ port, host: '127.0.0.1', exclusive: true })
    await once(server, 'listening')
    return (server.address() as AddressInfo).port
  } catch {
    return null // Taken, or not ours to bind.
  } finally {
    server.close()
  }
}

/** Runs `start`, which takes fresh ports each time, again while another process was quicker to bind them. */
export async function retryOnTakenPort<T>(start: () => Promise<T>): Promise<T> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await start()
    } catch (err) {
      const mayRetry = err instanceof ChildFailure && err.isPortTaken && attempt < ATTEMPTS_MAX
      if (!mayRetry) throw err
    }
  }
}
