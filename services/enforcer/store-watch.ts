import type { StoreClockReader, StoreMemoryReader } from '../../shared/core/ports.ts'
import type { Loop } from '../../shared/runtime/every.ts'
import type { Logger } from '../../shared/runtime/logger.ts'
import type { Registry } from '../../shared/runtime/metrics.ts'
import { observeStoreClock, StoreClockWatch } from './store-clock.ts'
import { observeStoreMemory, StoreMemoryWatch } from './store-memory.ts'

/** What is looked at changes when an operator changes Redis or its host; half a minute later is soon enough. */
export const STORE_TICK_MS = 30_000

export interface StoreWatchOptions {
  /** Without it nobody is warned of a Redis that evicts keys. */
  readonly storeMemory?: StoreMemoryReader
  /** Without it nobody is warned of a Redis whose clock cannot decide. */
  readonly storeClock?: StoreClockReader
  readonly log: Logger
  readonly registry: Registry
}

/**
 * Looks at how Redis is set up, for what makes limits wrong although it answers. Not before it has answered something:
 * at a start the connection is still being made, which is nothing to warn of.
 */
export class StoreWatch {
  readonly memory: StoreMemoryWatch
  readonly clock: StoreClockWatch
  #hasAnswered = false
  #loop: Loop | null = null

  constructor({ storeMemory, storeClock, log, registry }: StoreWatchOptions) {
    this.memory = new StoreMemoryWatch(storeMemory ?? null, log)
    this.clock = new StoreClockWatch(storeClock ?? null, log)
    observeStoreMemory(registry, this.memory)
    observeStoreClock(registry, this.clock)
  }

  /** Takes the loop that calls `lookOnce`, to wake it once there is something to look at. */
  keepLooking(loop: Loop): Loop {
    this.#loop = loop
    return loop
  }

  /** To be called whenever Redis has answered. The first time it is looked at at once. */
  answered(): void {
    if (this.#hasAnswered) return
    this.#hasAnswered = true
    this.#loop?.wake()
  }

  async lookOnce(): Promise<void> {
    if (!this.#hasAnswered) return
    // That one of them is not answered must not keep the other from being told of.
    const looks = [this.clock.readOnce(), this.memory.readOnce()]
    await Promise.allSettled(looks)
    await Promise.all(looks)
  }
}
