import type { RegionRecord } from '../../../shared/core/ledger/types.ts'
import type { Random } from './random.ts'
import type { Scheduler } from './scheduler.ts'

/** How links behave while they are not cut. */
export interface Weather {
  readonly delayMs: number
  readonly jitterMs: number
  readonly loss: number
  readonly repeat: number
  /** Chance that a record is held up for as long as some loans last. */
  readonly straggle: number
}

export const FAIR: Weather = { delayMs: 50, jitterMs: 2, loss: 0, repeat: 0, straggle: 0 }

/** Longest that a straggler is held up: well over the length of a loan. */
const STRAGGLE_MS_MAX = 25_000

/** Records that can be brought again: more than are sent while a loan lasts. */
const KEPT_MAX = 100

/** Carries each record to every other region, or not; each direction of each link by itself. */
export class Network {
  weather: Weather
  readonly #scheduler: Scheduler
  readonly #random: Random
  readonly #receivers = new Map<string, (record: RegionRecord) => void>()
  readonly #cut = new Set<string>()
  readonly #kept: RegionRecord[] = []
  sent = 0

  constructor(scheduler: Scheduler, random: Random, weather: Weather) {
    this.#scheduler = scheduler
    this.#random = random
    this.weather = weather
  }

  join(region: string, receive: (record: RegionRecord) => void): void {
    this.#receivers.set(region, receive)
  }

  cut(from: string, to: string): void {
    this.#cut.add(`${from} ${to}`)
  }

  cutBoth(one: string, other: string): void {
    this.cut(one, other)
    this.cut(other, one)
  }

  heal(): void {
    this.#cut.clear()
  }

  healOne(from: string, to: string): void {
    this.#cut.delete(`${from} ${to}`)
  }

  /** Brings a record again, though links be cut: it was on its way. The newest has age 0. */
  bringAgain(age: number, to: string): void {
    const record = this.#kept.at(-1 - age)
    if (record !== undefined) this.#receivers.get(to)?.(record)
  }

  /** `via`: where it is sent from, when that is another way than its region's own. */
  send(record: RegionRecord, via: string = record.from): void {
    this.sent += 1
    this.#kept.push(record)
    if (this.#kept.length > KEPT_MAX) this.#kept.shift()
    for (const [region, receive] of this.#receivers) {
      // A bus may well bring a region its own record.
      const isEcho = region === record.from && !this.#random.chance(0.05)
      if (isEcho || this.#cut.has(`${via} ${region}`)) continue
      this.#carry(() => receive(record))
    }
  }

  #carry(deliver: () => void): void {
    const { loss, repeat } = this.weather
    const copies = this.#random.chance(loss) ? 0 : this.#random.chance(repeat) ? 2 : 1
    for (let copy = 0; copy < copies; copy++) {
      this.#scheduler.after(this.#delay(), deliver)
    }
  }

  #delay(): number {
    const { delayMs, jitterMs, straggle } = this.weather
    if (this.#random.chance(straggle)) return this.#random.between(0, STRAGGLE_MS_MAX)
    return delayMs + this.#random.between(0, jitterMs)
  }
}
