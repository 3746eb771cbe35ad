import { hasBurst, type RegionLimit } from '../core/policy.ts'
import type { CheckTarget } from '../core/ports.ts'
import { counterKey } from './keys.ts'
import { bulk } from './script-command.ts'

/** A counter that was moved is asked for by the long way for so long: its share or lease will still be there. */
const MOVED_MS = 1_000

/** What is remembered of a target from check to check. */
export class UsualNotes {
  /** The counter's key in Redis' protocol. */
  readonly keyText: string
  /** Whether the limit is one that `lua/check-usual.lua` decides. */
  readonly isUsual: boolean
  /** Until when the counter is known to be none that it decides. */
  movedUntilMs = 0

  constructor({ limit, counter }: CheckTarget) {
    this.keyText = bulk(counterKey(counter))
    this.isUsual = isUsual(limit)
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
export function mostOf(limit: RegionLimit): number {
  return hasBurst(limit.algorithm) ? limit.burst : limit.capacity
}

function isUsual(limit: RegionLimit): boolean {
  const { algorithm, calendar, stock, estimate, capacity, home } = limit
  if (algorithm !== 'token_bucket' && algorithm !== 'fixed_window') return false
  return calendar === null && stock === undefined && estimate !== true && capacity * home > 0
}
