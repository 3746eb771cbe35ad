/**
 * S15: the seven scenarios of Doorman's own simulation (github.com/youtube/doorman, simulation/scenario_*.py).
 *
 * The same: a capacity of 500; the clients, their wants, the random walk of each by up to 10 % every 10 s, the spikes
 * and the times. A client that wants n units is callers of n tokens a second, evenly spaced, since wants are numbers
 * and not noise. What differs: Doorman's clients of one place ask one server, here they are one region; Doorman loses
 * the server that hands everything out, which does not exist here, so a region's sync daemon is lost in its place.
 */
import type { Prng } from '../world/prng.ts'
import { addCallers } from '../world/traffic.ts'
import type { World } from '../world/world.ts'
import { bucket, type Scenario, type Variant } from './scenario.ts'

const CAPACITY = bucket(500, 100)

/** Places with some clients each, all wanting the same at first. */
interface Clients {
  readonly places: number
  readonly each: number
  readonly want: number
}

/** The wants of all clients while a world runs. */
class Wants {
  readonly #wants: number[]
  readonly #each: number

  constructor(world: World, { places, each, want }: Clients) {
    this.#each = each
    this.#wants = Array.from({ length: places * each }, () => want)
    const prng = world.prng.fork('wants')
    for (let atMs = 0; atMs < world.spec.durationMs; atMs += 10_000) {
      world.at(atMs, () => this.#walk(prng))
    }
  }

  get clients(): number {
    return this.#wants.length
  }

  of(place: number): number {
    const from = place * this.#each
    return this.#wants.slice(from, from + this.#each).reduce((sum, want) => sum + want, 0)
  }

  set(client: number, change: (want: number) => number): void {
    this.#wants[client] = change(this.#wants[client] ?? 0)
  }

  #walk(prng: Prng): void {
    this.#wants.forEach((want, client) => {
      this.#wants[client] = want * (1 + 0.1 * prng.between(-1, 1))
    })
  }
}

interface Play {
  readonly clients: Clients
  readonly durationMs?: number
  readonly stepAtMs?: number
  readonly events?: (world: World, wants: Wants) => void
}

const PUBLISHED = 'Doorman: 96.6 to 96.8 % handed out, 106.05 % at most, up to 2 min'

/** Everything wanted is handed out within the first seconds; Doorman, too, leaves its start out of its figures. */
const WARM_MS = 10_000

function doorman(name: string, { clients, durationMs = 300_000, stepAtMs, events }: Play): Variant {
  return {
    name,
    published: PUBLISHED,
    target: {
      handedOut: 0.98,
      seeds: durationMs > 300_000 ? 1 : 3,
      ...(stepAtMs !== undefined && { convergenceMs: 3_000 }),
    },
    spec: {
      regions: clients.places,
      limit: CAPACITY,
      durationMs,
      judge: { fromMs: WARM_MS, toMs: durationMs },
      ...(stepAtMs !== undefined && { stepAtMs }),
      callers: (world) => {
        const wants = new Wants(world, clients)
        for (let place = 0; place < clients.places; place++) {
          addCallers(world, place, () => wants.of(place), { isPaced: true })
        }
        events?.(world, wants)
      },
    },
  }
}

const FIVE: Clients = { places: 5, each: 1, want: 110 }
const REGIONAL: Clients = { places: 5, each: 1, want: 100 }
/** Three regions of three data centres. */
const MASSIVE: Clients = { places: 9, each: 5, want: 15 }

function loseDaemon(world: World, region: number, span: { fromMs: number; toMs: number }): void {
  world.at(span.fromMs, () => world.withFaults(region, (faults) => faults.killDaemon()))
  world.at(span.toMs, () => world.withFaults(region, (faults) => faults.startDaemon()))
}

/** Two clients at random want 1,000 each. */
function spike(world: World, wants: Wants): void {
  const prng = world.prng.fork('spike')
  const first = prng.below(wants.clients)
  const second = (first + 1 + prng.below(wants.clients - 1)) % wants.clients
  for (const client of [first, second]) wants.set(client, () => 1_000)
}

/**
 * One a minute, as often as Doorman draws each: of fifteen, one client wants 100 more, five elections, and nine lost
 * masters for up to a minute. An election is a daemon that starts again at once.
 */
function mishap(world: World, wants: Wants, prng: Prng): void {
  const drawn = prng.below(15)
  if (drawn === 0) wants.set(prng.below(wants.clients), (want) => want + 100)
  const region = prng.below(world.spec.regions)
  const atMs = world.nowMs()
  const awayMs = drawn <= 5 ? 500 : prng.below(61) * 1_000
  if (drawn > 0) loseDaemon(world, region, { fromMs: atMs, toMs: atMs + awayMs })
}

export const doormanScenarios: Scenario = {
  id: 'S15',
  title: 'Doorman scenarios, capacity 500',
  variants: [
    doorman('1: five clients', { clients: FIVE }),
    doorman('2: as 1, a daemon away for 20 s', {
      clients: FIVE,
      stepAtMs: 140_000,
      events: (world) => loseDaemon(world, 0, { fromMs: 120_000, toMs: 140_000 }),
    }),
    doorman('3: as 1, a daemon away for 70 s', {
      clients: FIVE,
      stepAtMs: 190_000,
      events: (world) => loseDaemon(world, 0, { fromMs: 120_000, toMs: 190_000 }),
    }),
    doorman('4: five clients who want 100', { clients: REGIONAL }),
    doorman('5: 45 clients in 3x3', { clients: MASSIVE }),
    doorman('6: as 5, two spike to 1000', {
      clients: MASSIVE,
      stepAtMs: 150_000,
      events: (world, wants) => world.at(150_000, () => spike(world, wants)),
    }),
    doorman('7: as 5, a mishap each minute for an hour', {
      clients: MASSIVE,
      durationMs: 3_600_000,
      events: (world, wants) => {
        const prng = world.prng.fork('mishaps')
        for (let atMs = 60_000; atMs < 3_600_000; atMs += 60_000) {
          world.at(atMs, () => mishap(world, wants, prng))
        }
      },
    }),
  ],
}
