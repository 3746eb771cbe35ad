import type { EventQueue } from './event-queue.ts'
import type { Prng } from './prng.ts'

/** How messages travel from one place to another. Probabilities are per message. */
export interface Link {
  readonly delayMs: number
  /** Added to the delay, uniformly from 0; more than the spacing of messages reorders them. */
  readonly jitterMs: number
  readonly loss: number
  readonly duplicate: number
  /** Part of the messages that are late by up to `lateMs`. */
  readonly late: number
  readonly lateMs: number
}

export const GOOD_LINK: Link = {
  delayMs: 60,
  jitterMs: 5,
  loss: 0,
  duplicate: 0,
  late: 0,
  lateMs: 0,
}

/**
 * Directed links between numbered places. May lose, repeat, delay and reorder, and be cut in one direction.
 * Cuts count: two reasons for a cut need two mendings.
 */
export class Network {
  readonly #queue: EventQueue
  readonly #prng: Prng
  readonly #places: number
  readonly #links: Link[]
  readonly #cuts: number[]

  constructor(queue: EventQueue, prng: Prng, places: number, link: Link) {
    this.#queue = queue
    this.#prng = prng
    this.#places = places
    this.#links = Array.from({ length: places * places }, () => link)
    this.#cuts = this.#links.map(() => 0)
  }

  setLink(from: number, to: number, link: Link): void {
    this.#links[this.#index(from, to)] = link
  }

  linkOf(from: number, to: number): Link {
    return this.#links[this.#index(from, to)] ?? GOOD_LINK
  }

  /** `change` 1 cuts, -1 mends. */
  changeCut(from: number, to: number, change: 1 | -1): void {
    const index = this.#index(from, to)
    this.#cuts[index] = (this.#cuts[index] ?? 0) + change
  }

  isCut(from: number, to: number): boolean {
    return (this.#cuts[this.#index(from, to)] ?? 0) > 0
  }

  /** Delivers now or later, once, twice or never. A message on its way is not caught by a later cut. */
  send(from: number, to: number, deliver: () => void): void {
    if (this.isCut(from, to)) return
    const link = this.linkOf(from, to)
    if (this.#prng.chance(link.loss)) return
    this.#queue.after(this.#delayUs(link), deliver)
    if (this.#prng.chance(link.duplicate)) this.#queue.after(this.#delayUs(link), deliver)
  }

  /**
   * The connected part of each of the first `count` places, named by its lowest member, over links that work in
   * both directions. Delays that are as long as an outage are not seen as one.
   */
  components(count: number): readonly number[] {
    const component = Array.from({ length: count }, () => -1)
    for (let start = 0; start < count; start++) {
      if (component[start] === -1) this.#mark(component, start)
    }
    return component
  }

  #mark(component: number[], start: number): void {
    const reached = [start]
    component[start] = start
    for (let place = reached.pop(); place !== undefined; place = reached.pop()) {
      for (let other = 0; other < component.length; other++) {
        if (component[other] !== -1 || !this.#isJoined(place, other)) continue
        component[other] = start
        reached.push(other)
      }
    }
  }

  #isJoined(one: number, other: number): boolean {
    return !this.isCut(one, other) && !this.isCut(other, one)
  }

  #delayUs(link: Link): number {
    const lateMs = this.#prng.chance(link.late) ? this.#prng.next() * link.lateMs : 0
    return (link.delayMs + this.#prng.next() * link.jitterMs + lateMs) * 1_000
  }

  #index(from: number, to: number): number {
    return from * this.#places + to
  }
}
