import type { StoredBucket } from '../../../shared/postgres/usage-history.ts'
import type { Amounts } from './amount-ring.ts'
import { MINUTE_MS, type SeriesOf } from './series-book.ts'

/** Buckets that wait while Postgres is away or another admin writes; the oldest give way. Some 10 MB. */
const PENDING_MAX = 50_000

/** What is written of one minute: amounts of it, or of a long window the count until its end. */
export interface Bucket extends Amounts {
  /** Index of the window whose count this is; null: amounts of the minute alone. */
  readonly window: number | null
}

/** Minutes that changed and are to be written, each with its newest figures. */
export class PendingBuckets {
  readonly #byName = new Map<string, StoredBucket>()

  get size(): number {
    return this.#byName.size
  }

  put(of: SeriesOf, minute: number, bucket: Bucket): void {
    const { limitId, usageEpoch, region } = of
    const { window, admitted, denied, returned } = bucket
    const startsMs = minute * MINUTE_MS
    const unmet = Math.round(bucket.unmet)
    this.#set({ limitId, usageEpoch, region, startsMs, window, admitted, denied, returned, unmet })
  }

  /** Notes what was lacking in a minute; its amounts stay as they are. */
  raiseUnmet(of: SeriesOf, minute: number, unmet: number): void {
    const { limitId, usageEpoch, region } = of
    const startsMs = minute * MINUTE_MS
    const row = { limitId, usageEpoch, region, startsMs, window: null }
    const known = this.#byName.get(nameOf(row))
    const counts = known ?? { admitted: 0, denied: 0, returned: 0 }
    const { admitted, denied, returned } = counts
    this.#set({ ...row, admitted, denied, returned, unmet: Math.round(unmet) })
  }

  /** Everything that waits, which then waits no more. */
  take(): readonly StoredBucket[] {
    const buckets = [...this.#byName.values()]
    this.#byName.clear()
    return buckets
  }

  /** What could not be written waits again, unless it has changed since. */
  putBack(buckets: readonly StoredBucket[]): void {
    for (const bucket of buckets) if (!this.#byName.has(nameOf(bucket))) this.#set(bucket)
  }

  /** Forgets minutes that ended before `beforeMs`: another admin has written them. */
  forget(beforeMs: number): void {
    for (const [name, { startsMs }] of this.#byName) {
      if (startsMs + MINUTE_MS < beforeMs) this.#byName.delete(name)
    }
  }

  #set(bucket: StoredBucket): void {
    this.#byName.set(nameOf(bucket), bucket)
    const [oldest] = this.#byName.keys()
    if (this.#byName.size > PENDING_MAX && oldest !== undefined) this.#byName.delete(oldest)
  }
}

type BucketId = Pick<StoredBucket, 'limitId' | 'usageEpoch' | 'region' | 'startsMs' | 'window'>

function nameOf({ limitId, usageEpoch, region, startsMs, window }: BucketId): string {
  return `${limitId}.${usageEpoch}|${region}|${startsMs}|${window ?? ''}`
}
