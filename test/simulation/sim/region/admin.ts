/** The policy store of the plane, as far as regions can tell: revisions, incarnations and base epochs. */
import type { LedgerLimit, RegionRecord } from '../../../../shared/core/ledger/types.ts'
import type { BaseSplit, RegionId } from '../../../../shared/core/policy.ts'
import type { IncarnationReply } from './daemon-memory.ts'
import type { Plane } from './redis-image.ts'

export class Admin {
  plane: Plane
  readonly #onChange: () => void
  readonly #incarnations = new Map<RegionId, number>()
  readonly #replies = new Map<string, IncarnationReply>()
  readonly #adopted = new Map<RegionId, number>()

  constructor(plane: Plane, onChange: () => void) {
    this.plane = plane
    this.#onChange = onChange
  }

  /** The same request always has the same answer, so a repeated one wastes no incarnation. */
  incarnation(region: RegionId, request: string, atLeast: number): IncarnationReply {
    const known = this.#replies.get(request)
    if (known !== undefined) return known
    const last = this.#incarnations.get(region)
    const incarnation = Math.max(last ?? 0, atLeast) + 1
    this.#incarnations.set(region, incarnation)
    const reply = { request, incarnation, isFirst: last === undefined }
    this.#replies.set(request, reply)
    return reply
  }

  /** Closes the open epoch once every member has said that it adopted it. */
  hear(record: RegionRecord): void {
    for (const limit of this.plane.limits.values()) {
      if (limit.previousBase === null) continue
      if ((record.adopted[limit.id] ?? -1) >= limit.epoch) {
        this.#adopted.set(record.from, limit.epoch)
      }
      const awaited = this.plane.members.filter(
        (region) => (this.#adopted.get(region) ?? -1) < limit.epoch,
      )
      if (awaited.length === 0) this.#change({ ...limit, previousBase: null })
    }
  }

  /** Changes numbers that move no units. */
  setNumbers(numbers: Partial<Pick<LedgerLimit, 'capacity' | 'burst'>>): void {
    for (const limit of this.plane.limits.values()) this.#change({ ...limit, ...numbers })
  }

  /** Opens an epoch; false, and nothing changed, while one is open. */
  setBase(base: BaseSplit): boolean {
    const limits = [...this.plane.limits.values()]
    if (limits.some((limit) => limit.previousBase !== null)) return false
    for (const limit of limits) {
      this.#change({ ...limit, base, previousBase: limit.base, epoch: limit.epoch + 1 })
    }
    return true
  }

  setMembers(members: readonly RegionId[]): void {
    const gone = this.plane.members.filter((region) => !members.includes(region))
    const formerMembers = [...this.plane.formerMembers, ...gone].filter(
      (region) => !members.includes(region),
    )
    this.plane = { ...this.plane, members, formerMembers, revision: this.plane.revision + 1 }
    this.#onChange()
  }

  /**
   * An operator swears that a region takes no traffic any more. Only to be called once everything that it lent or
   * borrowed has ended; it then stands for the region's adoption of the open epoch.
   */
  certifyRemoval(region: RegionId): void {
    this.setMembers(this.plane.members.filter((member) => member !== region))
  }

  #change(limit: LedgerLimit): void {
    const limits = new Map(this.plane.limits).set(limit.id, limit)
    this.plane = { ...this.plane, limits, revision: this.plane.revision + 1 }
    this.#onChange()
  }
}
