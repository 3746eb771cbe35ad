import { hasBurst, type RegionLimit } from '../core/policy.ts'
import type { CheckTarget } from '../core/ports.ts'
import { type HashedKey, hashOf } from './key-places.ts'
import { counterKey } from './keys.ts'
import { bulk } from './script-command.ts'

/** A counter that was moved is asked for by the long way for so long: its share or lease will still be there. */
const MOVED_MS = 1_000

/** What is remembered of a target from check to check. */
export class UsualNotes implements HashedKey {
  /** The counter's key in Redis' protocol. */
  readonly keyText: string
  readonly hash: number
  /** Whether each character of it is one byte. */
  readonly isAscii: boolean
  /** The largest cost that `lua/check-usual.lua` decides of the limit; negative where it decides none. */
  readonly costMax: number
  /** Until when the counter is known to be none that it decides. */
  movedUntilMs = 0

  constructor({ limit, counter }: CheckTarget) {
    // In one piece: a text that was put together stays a tree of its parts, each of them elsewhere in memory.
    const bytes = Buffer.from(bulk(counterKey(counter)))
    this.keyText = bytes.toString()
    this.hash = hashOf(this.keyText)
    this.isAscii = this.keyText.length === bytes.length
    this.costMax = isUsual(limit) ? mostOf(limit) : -1
  }

  /** The notes on `target`, kept with it. */
  static of(target: CheckTarget): UsualNotes {
    if (target.notes instanceof UsualNotes) return target.notes
    const notes = new UsualNotes(target)
    target.notes = notes
    return notes
  }

  moved(nowMs: number): void {
    this.movedUntilMs = nowMs + MOVED_MS
  }
}

/** The largest cost that a usual limit can ever admit. */
function mostOf(limit: RegionLimit): number {
  return hasBurst(limit.algorithm) ? limit.burst : limit.capacity
}

function isUsual(limit: RegionLimit): boolean {
  const { algorithm, calendar, stock, estimate, capacity, home } = limit
  if (algorithm !== 'token_bucket' && algorithm !== 'fixed_window') return false
  return calendar === null && stock === undefined && estimate !== true && capacity * home > 0
}
