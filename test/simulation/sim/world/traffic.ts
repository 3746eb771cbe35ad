/** Who asks, when, of what and for how much. */
import type { Prng } from './prng.ts'
import type { World } from './world.ts'

/** Attempts a second at an instant (ms since traffic began). */
export type Demand = (atMs: number) => number

export interface CallerSpec {
  /** Which key a call is about; the first when left out. */
  readonly key?: (prng: Prng) => number
  readonly cost?: (prng: Prng) => number
  /** Callers that were denied try again. */
  readonly retry?: { readonly chance: number; readonly delayMs: number; readonly times: number }
  /** Demand is taken as constant for this long. */
  readonly sliceMs?: number
  /** Evenly spaced calls in place of a Poisson process. */
  readonly isPaced?: boolean
}

/** Arrivals within a slice are placed at random; slow callers of a day need no such short ones. */
const SLICE_MS = 10

/** Calls of independent callers in one region. */
export function addCallers(
  world: World,
  region: number,
  demand: Demand,
  spec: CallerSpec = {},
): void {
  const prng = world.prng.fork(`callers ${region}`)
  const sliceLengthUs = (spec.sliceMs ?? SLICE_MS) * 1_000
  const times: number[] = []
  let next = 0
  let sliceUs = world.startUs
  let owed = prng.next()
  const arrivals = (perSlice: number): number => {
    if (spec.isPaced !== true) return prng.poisson(perSlice)
    owed += perSlice
    const whole = Math.floor(owed)
    owed -= whole
    return whole
  }
  const fill = (): void => {
    times.length = 0
    next = 0
    while (times.length === 0 && sliceUs < world.endUs) {
      const perSecond = demand((sliceUs - world.startUs) / 1_000)
      const count = arrivals((Math.max(0, perSecond) * sliceLengthUs) / 1e6)
      for (let index = 0; index < count; index++) times.push(sliceUs + placeIn(index, count))
      times.sort((one, other) => one - other)
      sliceUs += sliceLengthUs
    }
    const [first] = times
    if (first !== undefined) world.queue.at(first, arrive)
  }
  const placeIn = (index: number, count: number): number =>
    spec.isPaced === true ? ((index + 0.5) / count) * sliceLengthUs : prng.next() * sliceLengthUs
  const arrive = (): void => {
    call(world, { region, spec, prng, triesLeft: spec.retry?.times ?? 0 })
    const following = times[++next]
    if (following === undefined) fill()
    else world.queue.at(following, arrive)
  }
  fill()
}

interface Call {
  readonly region: number
  readonly spec: CallerSpec
  readonly prng: Prng
  readonly triesLeft: number
}

function call(world: World, { region, spec, prng, triesLeft }: Call): void {
  const key = spec.key === undefined ? 0 : spec.key(prng)
  const cost = spec.cost === undefined ? 1 : spec.cost(prng)
  const { retry } = spec
  if (retry === undefined || triesLeft === 0) {
    world.attempt(region, key, cost)
    return
  }
  world.attempt(region, key, cost, (isAllowed) => {
    if (isAllowed || !prng.chance(retry.chance)) return
    const again = { region, spec, prng, triesLeft: triesLeft - 1 }
    world.queue.after(retry.delayMs * (0.5 + prng.next()) * 1_000, () => call(world, again))
  })
}

/** Keys drawn by Zipf's law: key k with a weight of 1 / (k + 1)^exponent. */
export function zipf(keys: number, exponent: number): (prng: Prng) => number {
  const sums = new Float64Array(keys)
  let total = 0
  for (let key = 0; key < keys; key++) {
    total += 1 / (key + 1) ** exponent
    sums[key] = total
  }
  return (prng) => {
    const wanted = prng.next() * total
    let [low, high] = [0, keys - 1]
    while (low < high) {
      const middle = (low + high) >> 1
      if ((sums[middle] ?? 0) < wanted) low = middle + 1
      else high = middle
    }
    return low
  }
}

/** Whole costs from 1 to `most` with a heavy tail: P(cost > c) is about c^-shape. */
export function paretoCost(most: number, shape: number): (prng: Prng) => number {
  return (prng) => Math.min(most, Math.floor((1 - prng.next()) ** (-1 / shape)))
}

const ROUND_TRIP_US = 100_000

/** Flows that speed up while they are admitted and halve when they are denied, like TCP. */
export function addFlows(
  world: World,
  region: number,
  flow: {
    readonly count: number
    readonly startRate: number
    readonly gain: number
    readonly cost: number
  },
): { readonly admitted: readonly number[] } {
  const prng = world.prng.fork(`flows ${region}`)
  const admitted = Array.from({ length: flow.count }, () => 0)
  for (let index = 0; index < flow.count; index++) {
    let rate = flow.startRate
    let calmUs = 0
    const send = (): void => {
      if (world.queue.nowUs >= world.endUs) return
      world.attempt(region, 0, flow.cost, (isAllowed) => {
        if (isAllowed) {
          // Grows by `gain` a second whatever its rate is.
          rate += flow.gain / rate
          admitted[index] = (admitted[index] ?? 0) + flow.cost
        } else if (world.queue.nowUs >= calmUs) {
          // Like TCP, halves once for all losses of one round trip.
          rate = Math.max(1, rate / 2)
          calmUs = world.queue.nowUs + ROUND_TRIP_US
        }
      })
      world.queue.after((1e6 / rate) * (0.9 + 0.2 * prng.next()), send)
    }
    world.queue.at(world.startUs + prng.next() * 1e6, send)
  }
  return { admitted }
}
