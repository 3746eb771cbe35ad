/**
 * The judge of "never over the limit": a reference limiter that is told of each admission.
 *
 * Bucket limits: over any interval at most burst + rate x (1 + drift) x time. That is a bucket of the whole limit
 * which never runs below zero; how far below it runs is the excess. Window limits: the count of each window,
 * whichever region's clock labelled it, is at most the capacity. Sliding ones: so is that of any span of a window's
 * length by the fastest clock.
 */
import { DRIFT } from '../../../../shared/core/ledger/constants.ts'
import { type Algorithm, type Calendar, hasBurst } from '../../../../shared/core/policy.ts'
import { WindowLabels } from './window-labels.ts'

/** The numbers in force; while a change travels, the larger of old and new. */
export interface JudgedNumbers {
  readonly algorithm: Algorithm
  readonly capacity: number
  readonly windowMs: number
  readonly burst: number
  /** Not null: windows end where a calendar says. */
  readonly calendar?: Calendar | null
}

/** Sums of doubles differ in the last digits; a real token is a million times more. */
const ROUNDING_TOKENS = 1e-6

interface Span {
  readonly admissions: { readonly atUs: number; readonly cost: number }[]
  count: number
}

export class Reference {
  #numbers: JudgedNumbers
  readonly #levels: Float64Array
  readonly #atUs: Float64Array
  /** Count and capacity of each window, by key and beginning. */
  readonly #windows: Map<number, { count: number; capacity: number }>[]
  /** Admissions of the span that ends now, by key. */
  readonly #spans: Span[]
  /** Capacities that were lowered: what was admitted under one counts for a window still. */
  #lowered: readonly { readonly capacity: number; readonly untilUs: number }[] = []
  readonly #labels = new WindowLabels()
  #excess = 0
  #excessAtUs = 0

  constructor(numbers: JudgedNumbers, keys: number) {
    this.#numbers = numbers
    this.#levels = new Float64Array(keys).fill(numbers.burst)
    this.#atUs = new Float64Array(keys)
    this.#windows = Array.from({ length: keys }, () => new Map())
    this.#spans = Array.from({ length: keys }, () => ({ admissions: [], count: 0 }))
  }

  /** Largest excess so far, tokens. */
  get excess(): number {
    return this.#excess
  }

  get excessAtUs(): number {
    return this.#excessAtUs
  }

  /** Changes the numbers from now on: what came before counts under the old ones. */
  setNumbers(numbers: JudgedNumbers, nowUs: number): void {
    const old = this.#numbers
    if (old.capacity === numbers.capacity && old.burst === numbers.burst) return
    for (let key = 0; key < this.#levels.length; key++) {
      this.#refill(key, nowUs)
      // A larger burst may be used at once; a smaller one clamps, except what is owed already.
      const grown = Math.max(0, numbers.burst - old.burst)
      this.#levels[key] = Math.min(numbers.burst, (this.#levels[key] ?? 0) + grown)
    }
    if (numbers.capacity < old.capacity) {
      const untilUs = nowUs + old.windowMs * 1_000
      this.#lowered = [...this.#lowered, { capacity: old.capacity, untilUs }]
    }
    this.#numbers = numbers
  }

  /** Tokens that a broken assumption allows beyond the limit, as docs/consistency.md states them. */
  allow(key: number, tokens: number): void {
    this.#levels[key] = Math.min(this.#numbers.burst, (this.#levels[key] ?? 0) + tokens)
  }

  /** `labelUs` is the deciding region's clock, which labels windows. */
  onAdmitted(key: number, cost: number, nowUs: number, labelUs: number): void {
    const { algorithm } = this.#numbers
    if (hasBurst(algorithm)) {
      this.#refill(key, nowUs)
      const level = (this.#levels[key] ?? 0) - cost
      this.#levels[key] = level
      this.#note(-level, nowUs)
    } else if (algorithm === 'fixed_window') {
      this.#countWindow(key, cost, nowUs, labelUs)
    } else {
      this.#countSpan(key, cost, nowUs)
    }
  }

  #refill(key: number, nowUs: number): void {
    const { capacity, windowMs, burst } = this.#numbers
    const elapsedUs = nowUs - (this.#atUs[key] ?? 0)
    const refilled = (capacity * (1 + DRIFT) * elapsedUs) / (windowMs * 1_000)
    this.#levels[key] = Math.min(burst, (this.#levels[key] ?? 0) + refilled)
    this.#atUs[key] = nowUs
  }

  #countWindow(key: number, cost: number, nowUs: number, labelUs: number): void {
    const { capacity } = this.#numbers
    const index = this.#labels.startMs(this.#numbers, labelUs)
    const windows = this.#windows[key]
    if (windows === undefined) return
    const window = windows.get(index) ?? { count: 0, capacity }
    window.count += cost
    // A limit that was lowered within a window still allows what it allowed before.
    window.capacity = Math.max(window.capacity, capacity)
    windows.set(index, window)
    if (windows.size > WINDOWS_KEPT) windows.delete(Math.min(...windows.keys()))
    this.#note(window.count - window.capacity, nowUs)
  }

  #countSpan(key: number, cost: number, nowUs: number): void {
    const { capacity, windowMs } = this.#numbers
    const span = this.#spans[key]
    if (span === undefined) return
    const fromUs = nowUs - (windowMs * 1_000) / (1 + DRIFT)
    span.admissions.push({ atUs: nowUs, cost })
    span.count += cost
    const left = span.admissions.findIndex(({ atUs }) => atUs > fromUs)
    for (const gone of span.admissions.splice(0, left)) span.count -= gone.cost
    this.#lowered = this.#lowered.filter(({ untilUs }) => nowUs < untilUs)
    const allowed = Math.max(capacity, ...this.#lowered.map((former) => former.capacity))
    this.#note(span.count - allowed, nowUs)
  }

  #note(excess: number, nowUs: number): void {
    if (excess <= this.#excess + ROUNDING_TOKENS) return
    this.#excess = excess
    this.#excessAtUs = nowUs
  }
}

/** Regions label within a clock skew of each other, so older windows are never added to. */
const WINDOWS_KEPT = 8
