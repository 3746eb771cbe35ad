import type { RegionId } from '../../../shared/core/policy.ts'
import { AmountRing, type Amounts } from './amount-ring.ts'

/** Five minutes of seconds and three hours of minutes: 15 kB a series. */
export const SECONDS_KEPT = 300
export const MINUTES_KEPT = 180

export const SECOND_MS = 1_000
export const MINUTE_MS = 60_000

/** How fast what a series did counts for less when another wants its place. */
const WEIGHT_HALF_LIFE_MS = 30_000

/** Series looked at to find one to give up: enough that it is a light one, few enough to do for each newcomer. */
const LOOKED_AT = 16

/** What a series is of: a limit in a region, or one hot key of it. */
export interface SeriesOf {
  readonly limitId: number
  readonly usageEpoch: number
  readonly region: RegionId
  /** Null: all keys together. */
  readonly key: string | null
}

export interface Series extends SeriesOf {
  readonly seconds: AmountRing
  readonly minutes: AmountRing
  touchedMs: number
  weight: number
}

/**
 * The series of the busiest limits or keys, at most `most`. One that wants in when all places are taken gets the place
 * of a lighter one, if it is heavier than that; so light ones cannot keep a heavy one out, nor push it out.
 */
export class SeriesBook {
  readonly #most: number
  readonly #byName = new Map<string, Series>()
  #hand: Iterator<[string, Series]> = this.#byName.entries()
  #turnedAway = 0

  constructor(most: number) {
    this.#most = most
  }

  get size(): number {
    return this.#byName.size
  }

  /** How many newcomers found no place. */
  get turnedAway(): number {
    return this.#turnedAway
  }

  get(of: SeriesOf): Series | null {
    return this.#byName.get(nameOf(of)) ?? null
  }

  all(): IterableIterator<Series> {
    return this.#byName.values()
  }

  /** The series to add `amounts` to, made where there is room; null where there is none. */
  admit(of: SeriesOf, amounts: Amounts, nowMs: number): Series | null {
    const name = nameOf(of)
    const added = amounts.admitted + amounts.denied + amounts.unmet
    const known = this.#byName.get(name)
    if (known !== undefined) {
      known.weight = weightAt(known, nowMs) + added
      known.touchedMs = nowMs
      return known
    }
    if (this.#byName.size >= this.#most && !this.#makeRoom(added, nowMs)) {
      this.#turnedAway++
      return null
    }
    const fresh: Series = {
      ...of,
      seconds: new AmountRing(SECONDS_KEPT, SECOND_MS),
      minutes: new AmountRing(MINUTES_KEPT, MINUTE_MS),
      touchedMs: nowMs,
      weight: added,
    }
    this.#byName.set(name, fresh)
    return fresh
  }

  /** Forgets series of what is gone and of what nothing is kept any more. */
  prune(isKnown: (of: SeriesOf) => boolean, nowMs: number): void {
    for (const [name, series] of this.#byName) {
      const isOld = nowMs - series.touchedMs > MINUTES_KEPT * MINUTE_MS
      if (isOld || !isKnown(series)) this.#byName.delete(name)
    }
  }

  #makeRoom(weight: number, nowMs: number): boolean {
    let lightest: { readonly name: string; readonly weight: number } | null = null
    for (let looked = 0; looked < LOOKED_AT; looked++) {
      const [name, series] = this.#next()
      const held = weightAt(series, nowMs)
      if (lightest === null || held < lightest.weight) lightest = { name, weight: held }
    }
    if (lightest === null || lightest.weight >= weight) return false
    return this.#byName.delete(lightest.name)
  }

  /** The hand goes round and round; called while there are series. */
  #next(): [string, Series] {
    const step = this.#hand.next()
    if (step.done !== true) return step.value
    this.#hand = this.#byName.entries()
    return this.#hand.next().value
  }
}

function weightAt({ weight, touchedMs }: Series, nowMs: number): number {
  return weight * 0.5 ** ((nowMs - touchedMs) / WEIGHT_HALF_LIFE_MS)
}

function nameOf({ limitId, usageEpoch, region, key }: SeriesOf): string {
  return `${limitId}.${usageEpoch}|${region}|${key ?? ''}`
}
