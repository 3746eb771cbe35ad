/**
 * What a region is expected to need of one key, from what was attempted there.
 *
 * Attempts count, not admissions: a region that denies would otherwise look idle because it denies. A change is
 * believed at once when it is larger than the noise of a short interval explains, and smoothed otherwise; an
 * estimate that always followed rises at once would ride the noise upwards and hoard.
 */

/** Least time between two measurements of a key; shorter ones are mostly noise. */
export const MEASURE_MIN_MS = 250

/** The same while some region denies: then speed is worth more than smoothness. */
export const MEASURE_HUNGRY_MIN_MS = 100

/** The same for the first look at a key: some figure is worth more than a good one, and the next ones mend it. */
export const MEASURE_FIRST_MS = 50

/**
 * Added to the first look of a region that could lend. Without it one in eight lends what it needs itself, and with
 * slow links waits half a second to get it back; the second look, twice as long, takes most of it away again.
 */
const FIRST_DEVIATIONS = 2

/** A timer that fires this much early still counts as on time. */
const EARLY_MS = 10

/** Time constant of the smoothing, measured: lower churns shares in steady state, higher holds idle ones. */
const SMOOTHING_MS = 1_500

/** Significant changes are followed this many times faster. */
const QUICKER = 15

/** Smoothing spans at least the time of this many tokens of the whole limit, so that slow limits are not spiky. */
const SMOOTHING_TOKENS = 10

/** Longest smoothing: a limit of five a day must still notice where its callers are within the minute. */
const SMOOTHING_MS_MAX = 30_000

/** Standard deviations that a change must pass to be believed at once. */
const SIGNIFICANCE = 3

/**
 * A change too small to be told from noise in one interval is looked for in the intervals before it, too, up to
 * this long: half of the demand of a slow limit leaving would otherwise take several smoothing times to notice.
 */
const RUN_MS = 1_000

/** A rate of less than one token in this many smoothing times is what smoothing leaves of demand that ended. */
const LEFTOVER = 2

/** A region denies by more than noise from this many tokens in an interval on, and this part of the attempts. */
const HUNGRY_DENIED_MIN = 3
const HUNGRY_DENIED_PART = 0.05

/** Limits of fewer tokens than this reach "hungry" sooner: three denials may be all that they ever see. */
const HUNGRY_TOKENS = 100

/** What is known of one key's demand in this region. `hungry`: it denies more than noise explains. */
export interface DemandEstimate {
  readonly atMs: number
  /** Cumulative figures at `atMs`. */
  readonly admitted: number
  readonly denied: number
  /** Attempted tokens a second, smoothed; null before the first interval. */
  readonly perSecond: number | null
  readonly hungry: boolean
  /** When the demand began that is being averaged: with the first reading, or the last change that was believed. */
  readonly sinceMs: number
  /** The last intervals, newest first, up to RUN_MS and not before the estimate last followed quickly. */
  readonly run: readonly Interval[]
}

interface Interval {
  readonly attempted: number
  readonly elapsedMs: number
}

/** Cumulative figures of one key as its region counted them. */
export interface DemandReading {
  readonly atMs: number
  readonly admitted: number
  readonly denied: number
}

export interface DemandSetting {
  /** Rate of the whole limit. */
  readonly tokensPerSecond: number
  /** Most tokens that the whole limit admits at one instant. */
  readonly tokensAtOnce: number
  /** Some other region denies this key: then spare units are worth giving back fast. */
  readonly isOtherHungry: boolean
}

/** The first reading of a key only sets the mark that the next is measured from. */
export function beginDemand(reading: DemandReading): DemandEstimate {
  const { atMs, admitted, denied } = reading
  return { atMs, admitted, denied, perSecond: null, hungry: false, sinceMs: atMs, run: [] }
}

/** The estimate after one more reading; the same one when too little time has passed to learn from. */
export function measureDemand(
  estimate: DemandEstimate,
  reading: DemandReading,
  setting: DemandSetting,
): DemandEstimate {
  const elapsedMs = reading.atMs - estimate.atMs
  const denied = increase(reading.denied, estimate.denied)
  const attempted = increase(reading.admitted, estimate.admitted) + denied
  const hungry = denied >= hungryFrom(attempted, setting.tokensAtOnce)
  const isUrgent = hungry || estimate.hungry || setting.isOtherHungry
  if (elapsedMs + EARLY_MS < leastMs(estimate, isUrgent)) return estimate
  return {
    atMs: reading.atMs,
    admitted: reading.admitted,
    denied: reading.denied,
    hungry,
    ...follow(estimate, { attempted, elapsedMs, hungry }, setting),
  }
}

function leastMs({ perSecond }: DemandEstimate, isUrgent: boolean): number {
  if (perSecond === null) return MEASURE_FIRST_MS
  return isUrgent ? MEASURE_HUNGRY_MIN_MS : MEASURE_MIN_MS
}

function follow(
  { atMs, perSecond: known, sinceMs, run }: DemandEstimate,
  interval: Interval & { readonly hungry: boolean },
  setting: DemandSetting,
): Pick<DemandEstimate, 'perSecond' | 'sinceMs' | 'run'> {
  const { attempted, elapsedMs, hungry } = interval
  const offered = rateOf(interval)
  const deviation = (Math.sqrt(attempted) / elapsedMs) * 1_000
  if (known === null) {
    // Who denies nothing will be asked to lend at once, and one short look says little: rather keep too much.
    const kept = hungry ? 0 : FIRST_DEVIATIONS * deviation
    return { perSecond: offered + kept, sinceMs, run: [] }
  }
  // One deviation below what was seen: a jump up must not land above the truth half of the time. Denials alone are no
  // reason to jump: a bucket runs empty when more arrives than usual by chance, so these intervals read too high.
  const surely = offered - deviation
  const isJump = hungry && surely > known && isBelieved(known, interval, setting)
  if (isJump) return { perSecond: surely, sinceMs, run: [] }
  const slowMs = paceMs(setting.tokensPerSecond, SMOOTHING_MS)
  const recent = [{ attempted, elapsedMs }, ...run]
  const believed = sumsOf(recent).find((seen) => isBelieved(known, seen, setting))
  if (believed !== undefined) {
    const changedMs = atMs + elapsedMs - believed.elapsedMs
    return { perSecond: towards(known, believed, slowMs / QUICKER), sinceMs: changedMs, run: [] }
  }
  // All that was seen counts alike until there is enough of it: the first look would else weigh for long.
  const constantMs = Math.min(slowMs, atMs - sinceMs)
  return { perSecond: towards(known, interval, constantMs), sinceMs, run: within(recent, RUN_MS) }
}

/** Rises are followed at once when they are no noise; falls only while somebody else is short. */
function isBelieved(known: number, seen: Interval, setting: DemandSetting): boolean {
  const seconds = seen.elapsedMs / 1_000
  const noise = (SIGNIFICANCE * Math.sqrt(Math.max(1, known * seconds))) / seconds
  const offered = rateOf(seen)
  return offered > known + noise || (offered < known - noise && setting.isOtherHungry)
}

/** Exponential smoothing over the interval; what is left of demand that has ended counts as none. */
function towards(known: number, seen: Interval, constantMs: number): number {
  const next = known + (rateOf(seen) - known) * (1 - Math.exp(-seen.elapsedMs / constantMs))
  const isOver = seen.attempted === 0 && next * constantMs * LEFTOVER < 1_000
  return isOver ? 0 : next
}

function rateOf(interval: Interval): number {
  return (interval.attempted * 1_000) / interval.elapsedMs
}

/** The newest interval, the two newest together, and so on. */
function sumsOf(recent: readonly Interval[]): readonly Interval[] {
  let [attempted, elapsedMs] = [0, 0]
  return recent.map((interval) => {
    attempted += interval.attempted
    elapsedMs += interval.elapsedMs
    return { attempted, elapsedMs }
  })
}

function within(recent: readonly Interval[], spanMs: number): readonly Interval[] {
  const sums = sumsOf(recent)
  return recent.filter((_, index) => (sums[index]?.elapsedMs ?? 0) <= spanMs)
}

/** At least `leastMs`, and the time of some tokens of a limit of this rate: less than that holds mostly noise. */
export function paceMs(tokensPerSecond: number, leastMs: number): number {
  const tokensMs = (SMOOTHING_TOKENS * 1_000) / tokensPerSecond
  return Math.min(SMOOTHING_MS_MAX, Math.max(leastMs, tokensMs))
}

function hungryFrom(attempted: number, tokensAtOnce: number): number {
  const few = Math.ceil((HUNGRY_DENIED_MIN * tokensAtOnce) / HUNGRY_TOKENS)
  return Math.max(Math.min(HUNGRY_DENIED_MIN, few), HUNGRY_DENIED_PART * attempted)
}

/** Figures fall only when the store lost the key's count and began again at zero. */
function increase(now: number, before: number): number {
  return now >= before ? now - before : now
}
