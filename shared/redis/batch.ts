import { assert } from '../core/assert.ts'
import type { RegionLimit } from '../core/policy.ts'
import type { GroupCheck } from '../core/ports.ts'
import type { Doubles } from './doubles.ts'
import { holderWords } from './holder.ts'
import { counterKey } from './keys.ts'
import { limitDoubles } from './layout.ts'
import { bulk, ScriptCommand } from './script-command.ts'

/** One caller that waits for its part of a batch's reply. */
export interface Waiting<Answer> {
  readonly targets: number
  readonly resolve: (answer: Answer) => void
  readonly reject: (err: unknown) => void
}

/** One check for a script; `given` for the script that takes it back. */
export interface Call {
  readonly check: GroupCheck
  readonly given: { readonly atUs: number; readonly mark: string | null } | null
}

/** Which batch a call can join: one script call has one slot group and one policy version. */
export interface BatchKind {
  readonly group: number
  readonly version: number
}

/** The keys of a slot group that come before the counters, written once. */
export interface GroupPrefix {
  readonly firstKey: string
  readonly keyCount: number
  readonly keysText: string
}

export function groupPrefix(keys: readonly string[]): GroupPrefix {
  return { firstKey: keys[0] ?? '', keyCount: keys.length, keysText: keys.map(bulk).join('') }
}

/** The calls of one slot group that arrived in one turn, packed as the arguments of one script call. */
export class Batch<Answer> {
  readonly kind: BatchKind
  readonly waiting: Waiting<Answer>[] = []
  targets = 0
  /** True once its callers were told that it takes too long; it must not be sent again. */
  isGivenUp = false
  readonly #items: Doubles
  readonly #limits: Doubles
  readonly #keyIndexes = new Map<string, number>()
  readonly #limitIndexes = new Map<RegionLimit, number>()
  #lastLimit: RegionLimit | null = null
  #lastLimitIndex = 0
  #keysText = ''

  /** `items` and `limits` are this batch's alone until it is settled. */
  constructor(kind: BatchKind, buffers: { readonly items: Doubles; readonly limits: Doubles }) {
    this.kind = kind
    this.#items = buffers.items
    this.#limits = buffers.limits
    this.#items.clear()
    this.#limits.clear()
  }

  get buffers(): { readonly items: Doubles; readonly limits: Doubles } {
    return { items: this.#items, limits: this.#limits }
  }

  /** Adds one call, packed as the script's header describes. */
  add({ check, given }: Call, waiting: Waiting<Answer>): void {
    const { cost, targets } = check
    const items = this.#items
    items.push(cost)
    if (given !== null) {
      items.push(given.atUs)
      items.push(given.mark === null ? 0 : this.#keyIndex(given.mark, asIs))
    }
    items.push(targets.length)
    for (const { limit, counter } of targets) {
      items.push(limit === this.#lastLimit ? this.#lastLimitIndex : this.#limitIndex(limit))
      items.push(this.#keyIndex(counter, counterKey))
      if (limit.algorithm === 'concurrency') this.#pushHolder(check.requestId)
    }
    this.targets += targets.length
    this.waiting.push(waiting)
  }

  /** The call of the script `sha`. */
  command(sha: string, { firstKey, keyCount, keysText }: GroupPrefix): ScriptCommand {
    return new ScriptCommand({
      sha,
      firstKey,
      keyCount: keyCount + this.#keyIndexes.size,
      keysText: keysText + this.#keysText,
      texts: [String(this.kind.version)],
      packed: [this.#limits.bytes, this.#items.bytes],
    })
  }

  #pushHolder(requestId: string | undefined): void {
    assert(requestId !== undefined, 'who holds tokens of a concurrency limit has an id')
    for (const word of holderWords(requestId)) this.#items.push(word)
  }

  #limitIndex(limit: RegionLimit): number {
    const known = this.#limitIndexes.get(limit)
    const index = known ?? this.#limitIndexes.size + 1
    if (known === undefined) {
      for (const number of limitDoubles(limit, Date.now())) this.#limits.push(number)
      this.#limitIndexes.set(limit, index)
    }
    this.#lastLimit = limit
    this.#lastLimitIndex = index
    return index
  }

  /** Counters and marks are told apart by their first character. */
  #keyIndex(name: string, keyOf: (name: string) => string): number {
    const known = this.#keyIndexes.get(name)
    if (known !== undefined) return known
    this.#keysText += bulk(keyOf(name))
    const index = this.#keyIndexes.size + 1
    this.#keyIndexes.set(name, index)
    assert(index === this.#keyIndexes.size, 'each key is there once')
    return index
  }
}

function asIs(name: string): string {
  return name
}
