import { isNewer } from '../../shared/core/ledger/state.ts'
import type { RecordMark } from '../../shared/core/ledger/types.ts'
import type { RegionId } from '../../shared/core/policy.ts'

/** Records whose arrival is remembered of each region: half a minute of the most that are sent, minutes as a rule. */
const MARKS_KEPT = 300

interface Arrival {
  readonly mark: RecordMark
  readonly atMs: number
}

/** When the latest records of each region arrived here: what dates acknowledgements of them, by one clock. */
export class MarkTimes {
  readonly #byRegion = new Map<RegionId, Arrival[]>()

  note(region: RegionId, mark: RecordMark, atMs: number): void {
    const arrivals = this.#byRegion.get(region) ?? []
    arrivals.push({ mark, atMs })
    if (arrivals.length > MARKS_KEPT) arrivals.shift()
    this.#byRegion.set(region, arrivals)
  }

  forget(region: RegionId): void {
    this.#byRegion.delete(region)
  }

  /**
   * When the record `mark` of a region arrived. Of one that was skipped here, when the next did; of one before all
   * that are remembered, when the oldest did. Null for one that has not arrived.
   */
  heardMs(region: RegionId, mark: RecordMark): number | null {
    const found = this.#byRegion.get(region)?.find((arrival) => !isNewer(mark, arrival.mark))
    return found?.atMs ?? null
  }
}
