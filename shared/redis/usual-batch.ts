import { assert } from '../core/assert.ts'
import { SLOT_GROUPS } from '../core/counter-id.ts'
import type { RegionLimit } from '../core/policy.ts'
import type { SoleCheck } from '../core/ports.ts'
import { Doubles } from './doubles.ts'
import { KeyPlaces } from './key-places.ts'
import { groupKeys } from './keys.ts'
import { limitDoubles } from './layout.ts'
import { bulk, ScriptCommand } from './script-command.ts'
import type { UsualNotes } from './usual-notes.ts'

/** Most checks in one script call, so that one call stalls Redis for less than a millisecond. */
export const USUAL_CHECKS_MAX = 256

/** Buffers that are cleared and used again: allocating them for each batch costs more than filling them. */
export interface UsualBuffers {
  readonly limits: Doubles
  readonly runs: Doubles
  readonly metaOf: Uint8Array
  readonly keys: KeyPlaces
}

export function usualBuffers(): UsualBuffers {
  return {
    limits: new Doubles(),
    runs: new Doubles(),
    metaOf: new Uint8Array(USUAL_CHECKS_MAX),
    keys: new KeyPlaces(USUAL_CHECKS_MAX),
  }
}

/** Keys of each slot group in Redis' protocol. */
const GROUP_TEXTS = Array.from({ length: SLOT_GROUPS }, (_, group) => {
  const { meta, hot, usage } = groupKeys(group)
  return { hot, first: bulk(hot) + bulk(usage), meta: bulk(meta) }
})

/** Checks of one target each that arrived together, packed as `lua/check-usual.lua` reads them. */
export class UsualBatch {
  readonly version: number
  /** The slot group of the first check. */
  readonly group: number
  readonly buffers: UsualBuffers
  readonly checks: SoleCheck[] = []
  readonly limits: RegionLimit[] = []
  /** True once its callers were told that it takes too long. */
  isGivenUp = false
  /** By slot group: the index of its meta in the call, from 1; 0 where it is not there. */
  readonly #metaOf = new Uint8Array(SLOT_GROUPS)
  #metas = 0
  #metaText = ''
  #keysText = ''
  #isAscii = true
  #fieldsText = ''
  /** The run that a next check may join. */
  #limit: RegionLimit | null = null
  #limitIndex = 0
  #cost = 0
  #first = 0
  #length = 0

  constructor(version: number, group: number, buffers: UsualBuffers) {
    this.version = version
    this.group = group
    this.buffers = buffers
    buffers.limits.clear()
    buffers.runs.clear()
    buffers.keys.clear()
  }

  /** One of its keys. */
  get key(): string {
    return groupKeys(this.group).hot
  }

  get isFull(): boolean {
    return this.checks.length >= USUAL_CHECKS_MAX
  }

  /** `notes`: on the target of `check`. */
  add(check: SoleCheck, notes: UsualNotes): void {
    const { target, cost } = check
    const { keys } = this.buffers
    const { size } = keys
    const index = keys.placeOf(notes)
    if (index > size) this.#addKey(check.group, index, notes)
    const joins =
      target.limit === this.#limit && cost === this.#cost && index === this.#first + this.#length
    if (joins) this.#length += 1
    else this.#startRun(target.limit, cost, index)
    this.checks.push(check)
  }

  /** The call of the script `sha`. The last run ends with it. */
  command(sha: string): ScriptCommand {
    const texts = GROUP_TEXTS[this.group]
    assert(texts !== undefined, 'the slot group exists')
    this.#endRun()
    const { limits, runs, metaOf, keys } = this.buffers
    return new ScriptCommand({
      sha,
      firstKey: texts.hot,
      keyCount: 2 + this.#metas + keys.size,
      keysText: texts.first + this.#metaText + this.#keysText,
      isAscii: this.#isAscii,
      texts: [String(this.version), String(this.#metas)],
      packed: [limits.bytes, runs.bytes, metaOf.subarray(0, keys.size)],
      lastCount: this.limits.length,
      lastText: this.#fieldsText,
    })
  }

  #addKey(group: number, index: number, notes: UsualNotes): void {
    this.#keysText += notes.keyText
    if (!notes.isAscii) this.#isAscii = false
    this.buffers.metaOf[index - 1] = this.#metaOf[group] || this.#addMeta(group)
  }

  #addMeta(group: number): number {
    this.#metas += 1
    this.#metaOf[group] = this.#metas
    this.#metaText += GROUP_TEXTS[group]?.meta ?? ''
    return this.#metas
  }

  #startRun(limit: RegionLimit, cost: number, index: number): void {
    this.#endRun()
    if (limit !== this.#limit) this.#limitIndex = this.#indexOfLimit(limit)
    this.#limit = limit
    this.#cost = cost
    this.#first = index
    this.#length = 1
  }

  #endRun(): void {
    if (this.#length === 0) return
    const { runs } = this.buffers
    runs.push(this.#limitIndex)
    runs.push(this.#cost)
    runs.push(this.#first)
    runs.push(this.#length)
    this.#length = 0
  }

  #indexOfLimit(limit: RegionLimit): number {
    const known = this.limits.indexOf(limit)
    if (known >= 0) return known + 1
    for (const number of limitDoubles(limit, Date.now())) this.buffers.limits.push(number)
    this.#fieldsText += bulk(`${limit.id}.${limit.usageEpoch}`)
    return this.limits.push(limit)
  }
}
