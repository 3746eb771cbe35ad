import type { StoreMemory, StoreMemoryReader } from '../../shared/core/ports.ts'
import type { Logger } from '../../shared/runtime/logger.ts'
import { gauge, type Registry } from '../../shared/runtime/metrics.ts'

/**
 * Tells operators of a Redis that throws keys away when its memory is full: each is a limit that begins anew, which
 * no bound survives.
 */
export class StoreMemoryWatch {
  readonly #reader: StoreMemoryReader | null
  readonly #log: Logger
  #last: StoreMemory = { evicts: null, evictedKeys: 0 }

  constructor(reader: StoreMemoryReader | null, log: Logger) {
    this.#reader = reader
    this.#log = log
  }

  /** Its policy, where that evicts; null where it does not, and before the first reading. */
  get evicts(): string | null {
    return this.#last.evicts
  }

  get evictedKeys(): number {
    return this.#last.evictedKeys
  }

  async readOnce(): Promise<void> {
    if (this.#reader === null) return
    const { evicts } = this.#last
    this.#last = await this.#reader.read()
    if (this.#last.evicts === null || this.#last.evicts === evicts) return
    this.#log.warn(
      { maxmemoryPolicy: this.#last.evicts },
      'redis evicts keys when its memory is full; set maxmemory-policy noeviction',
    )
  }
}

/** Declares what Redis does when its memory is full; read when scraped. */
export function observeStoreMemory(
  registry: Registry,
  watch: Pick<StoreMemoryWatch, 'evicts' | 'evictedKeys'>,
): void {
  gauge(registry, {
    name: 'quotaplane_store_evicts',
    help: '1 where Redis may throw keys away when its memory is full.',
    collect() {
      this.set(watch.evicts === null ? 0 : 1)
    },
  })
  gauge(registry, {
    name: 'quotaplane_store_evicted_keys',
    help: 'Keys that Redis has thrown away since its start.',
    collect() {
      this.set(watch.evictedKeys)
    },
  })
}
