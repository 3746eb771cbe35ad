import type { RegionId } from '../../shared/core/policy.ts'
import type { SyncFacts } from '../../shared/protocol/facts.ts'

/** Facts that are older are of a daemon that is gone, or cannot be heard. */
export const FACTS_FRESH_MS = 10_000

/** Daemons of one region that are remembered: a leader, its standby, and those before a restart. */
const DAEMONS_MAX = 16

export interface HeardFacts {
  readonly facts: SyncFacts
  readonly heardAtMs: number
  /**
   * By how much the clock of the region's Redis is ahead of this one's, at least: the most that any facts of the
   * daemon showed, since the way here only makes it look less.
   */
  readonly redisAheadMs: number | null
}

/** By how much the clock of a region's Redis is ahead of this one's, at least; null where no daemon told. */
export function redisAheadMs(facts: readonly HeardFacts[]): number | null {
  const known = facts.flatMap((one) => one.redisAheadMs ?? [])
  return known.length === 0 ? null : Math.max(...known)
}

/** What daemons last told of themselves, in memory. */
export class FactsBook {
  readonly #heard = new Map<RegionId, Map<string, HeardFacts>>()

  hear(facts: SyncFacts, members: readonly RegionId[], nowMs: number): void {
    if (!members.includes(facts.from)) return
    const region = this.#heard.get(facts.from) ?? new Map<string, HeardFacts>()
    this.#heard.set(facts.from, region)
    const before = region.get(facts.daemon)
    const ahead = facts.redis === null ? null : facts.redis.timeMs - nowMs
    // A clock that was set back shows once the older reading is out of date.
    const isRecent = before !== undefined && nowMs - before.heardAtMs < FACTS_FRESH_MS
    const known = isRecent ? before.redisAheadMs : null
    const redisAheadMs =
      ahead === null || known === null || Math.abs(ahead - known) > 1_000
        ? ahead
        : Math.max(ahead, known)
    region.delete(facts.daemon)
    region.set(facts.daemon, { facts, heardAtMs: nowMs, redisAheadMs })
    const [oldest] = region.keys()
    if (region.size > DAEMONS_MAX && oldest !== undefined) region.delete(oldest)
  }

  /** Of daemons that were heard lately. */
  of(region: RegionId, nowMs: number): readonly HeardFacts[] {
    const heard = [...(this.#heard.get(region)?.values() ?? [])]
    return heard.filter(({ heardAtMs }) => nowMs - heardAtMs < FACTS_FRESH_MS)
  }
}
