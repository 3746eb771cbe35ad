import type { DescriptorEntry } from '../../shared/core/descriptor.ts'
import { type Check, entriesOf } from '../requests.ts'
import type { Block } from './block.ts'

/** Longer keys are asked for one by one, so that what callers send cannot fill the memory. */
const NAME_LENGTH_MAX = 512

/** What a key that has just become hot is taken to spend in a tick. */
const ASKED_PER_TICK_FIRST = 4

/** Blocks are as large as what 50 ms spend, and live for 100 ms; so much may have gone from Redis since the last one. */
const SHORT_OF = 4

/** A domain and descriptor that is checked often, and its blocks. */
export class LeasedKey {
  readonly #domain: string
  readonly #entries: readonly DescriptorEntry[]
  block: Block | null = null
  next: Block | null = null
  /** False once it was given up. */
  isHeld = true
  /** The request for a block that is under way; recalled where the block goes back as soon as it is here. */
  asking: Promise<void> | null = null
  isRecalled = false
  /** What Redis had left when it last granted a block. */
  remaining = Number.POSITIVE_INFINITY
  pausedUntilMs = Number.NEGATIVE_INFINITY
  /** Tokens asked for since the last tick, and smoothed over the ticks before. */
  asked = 0
  askedPerTick = ASKED_PER_TICK_FIRST
  #idleTicks = 0

  /** Of a check of one descriptor. */
  constructor({ domain, descriptors: [descriptor = {}] }: Check) {
    this.#domain = domain
    // Whoever gave the list may write to it later, and a block of another key must never be spent for this one.
    this.#entries = entriesOf(descriptor).map(({ key, value }) => ({ key, value }))
  }

  /** The same for checks of the same key alone; null of those that no block covers, and of input that is not valid. */
  static nameOf({ domain, descriptors }: Check): string | null {
    const [descriptor] = descriptors
    if (descriptor === undefined || descriptors.length > 1 || typeof domain !== 'string')
      return null
    // Injective by lengths.
    let name = `${domain.length}.${domain}`
    for (const entry of entriesOf(descriptor)) {
      // What is no entry is the enforcer's to refuse, which says what is wrong with it.
      const { key, value } = entry ?? {}
      if (typeof key !== 'string' || typeof value !== 'string') return null
      name += `${key.length}.${value.length}:${key}${value}`
    }
    return name.length > NAME_LENGTH_MAX ? null : name
  }

  /** Whether Redis, when it last granted, had so little left that by now it may lack `cost`. */
  isShortOf(cost: number): boolean {
    const unspent = (this.block?.tokens ?? 0) + (this.next?.tokens ?? 0)
    return this.remaining < SHORT_OF * (cost + unspent)
  }

  /** Called every tick; for how many of them nothing was asked for. */
  tick(): number {
    this.#idleTicks = this.asked === 0 ? this.#idleTicks + 1 : 0
    this.askedPerTick = (this.askedPerTick + this.asked) / 2
    this.asked = 0
    return this.#idleTicks
  }

  encode(more: { readonly tokens: number; readonly id?: string }): string {
    const descriptors = [{ entries: this.#entries }]
    return JSON.stringify({ domain: this.#domain, descriptors, ...more })
  }
}
