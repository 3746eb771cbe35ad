import { assert } from '../core/assert.ts'
import type { RegionLimit } from '../core/policy.ts'
import type { GroupCheck } from '../core/ports.ts'
import { counterKey } from './keys.ts'
import { limitDoubles, packDoubles } from './layout.ts'

/** One caller that waits for its part of a batch's reply. */
export interface Waiting<Answer> {
  readonly targets: number
  readonly resolve: (answer: Answer) => void
  readonly reject: (err: unknown) => void
}

/** Which batch a call can join: one script call has one slot group and one policy version. */
export interface BatchKind {
  readonly group: number
  readonly version: number
}

/** The calls of one slot group that arrived in one turn, packed as the arguments of one script call. */
export class Batch<Answer> {
  readonly kind: BatchKind
  readonly counters: string[] = []
  readonly waiting: Waiting<Answer>[] = []
  targets = 0
  /** True once it was sent a second time, with scripts read anew. */
  isRepeated = false
  readonly #items: number[] = []
  readonly #counterIndexes = new Map<string, number>()
  readonly #limits: number[] = []
  readonly #limitIndexes = new Map<RegionLimit, number>()

  constructor(kind: BatchKind) {
    this.kind = kind
  }

  /** Adds one call, packed as the script's header describes; `atUs` null for scripts that take no instant. */
  add({ cost, targets }: GroupCheck, atUs: number | null, waiting: Waiting<Answer>): void {
    this.#items.push(cost)
    if (atUs !== null) this.#items.push(atUs)
    this.#items.push(targets.length)
    for (const { limit, counter } of targets) {
      this.#items.push(this.#limitIndex(limit), this.#counterIndex(counter))
    }
    this.targets += targets.length
    this.waiting.push(waiting)
  }

  /** ARGV of the script. */
  args(): readonly (number | Buffer)[] {
    return [this.kind.version, packDoubles(this.#limits), packDoubles(this.#items)]
  }

  #limitIndex(limit: RegionLimit): number {
    const known = this.#limitIndexes.get(limit)
    if (known !== undefined) return known
    this.#limits.push(...limitDoubles(limit))
    const index = this.#limitIndexes.size + 1
    this.#limitIndexes.set(limit, index)
    return index
  }

  #counterIndex(counter: string): number {
    const known = this.#counterIndexes.get(counter)
    if (known !== undefined) return known
    const index = this.counters.push(counterKey(counter))
    this.#counterIndexes.set(counter, index)
    assert(index === this.#counterIndexes.size, 'each counter is a key once')
    return index
  }
}
