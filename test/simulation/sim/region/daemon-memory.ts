import { createLedger, isNewer, type LedgerState } from '../../../../shared/core/ledger/state.ts'
import type { RegionRecord } from '../../../../shared/core/ledger/types.ts'
import type { RegionId } from '../../../../shared/core/policy.ts'
import { EMPTY_PLANE, type Plane } from './redis-image.ts'

/** What admin answers to a region that asks for its next incarnation. */
export interface IncarnationReply {
  readonly request: string
  readonly incarnation: number
  readonly isFirst: boolean
}

/** What one daemon process knows of its region from one session to the next; a crash loses it. */
export class DaemonMemory {
  readonly region: RegionId
  ledger: LedgerState
  plane: Plane = EMPTY_PLANE
  homes: ReadonlyMap<number, number> = new Map()
  isRecovering = false
  /** Only a plane that answers this question or a later one may be used; 0 when any will do. */
  freshQuestion = 0
  asked = 0
  incarnationHeard = 0
  arrivedIncarnation: IncarnationReply | null = null
  /** Steps that the ledger took. */
  steps = 0
  readonly #records = new Map<RegionId, RegionRecord>()
  #arrivedPlane: Plane | null = null

  constructor(region: RegionId) {
    this.region = region
    this.ledger = createLedger(region)
  }

  putRecord(record: RegionRecord): void {
    const waiting = this.#records.get(record.from)
    if (waiting === undefined || isNewer(record.mark, waiting.mark)) {
      this.#records.set(record.from, record)
    }
  }

  takeRecord(): RegionRecord | null {
    const [record] = this.#records.values()
    if (record === undefined) return null
    this.#records.delete(record.from)
    return record
  }

  /** A later answer, or a later plane: a region may wait for either. */
  putPlane(plane: Plane): void {
    const known = this.#arrivedPlane
    if (known !== null && plane.revision < known.revision) return
    const answers = Math.max(plane.answers, known?.revision === plane.revision ? known.answers : 0)
    this.#arrivedPlane = { ...plane, answers }
  }

  takePlane(): Plane | null {
    const plane = this.#arrivedPlane
    this.#arrivedPlane = null
    return plane
  }

  accepts(plane: Plane): boolean {
    if (this.freshQuestion > 0) return plane.answers >= this.freshQuestion
    return plane.revision > this.plane.revision
  }

  /** True when a peer speaks of a later incarnation of this region than the present one. */
  isOutranked(record: RegionRecord): boolean {
    const heard = Math.max(
      record.acks[this.region]?.incarnation ?? 0,
      record.pairs[this.region]?.borrow[0] ?? 0,
    )
    this.incarnationHeard = Math.max(this.incarnationHeard, heard)
    return heard > this.ledger.incarnation
  }

  forgetLedger(): void {
    this.ledger = createLedger(this.region)
  }
}
