import { splitBase } from '../../../shared/core/base-split.ts'
import { LENDER_WAIT_MS } from '../../../shared/core/ledger/constants.ts'
import { drainEnd } from '../../../shared/core/ledger/homes.ts'
import type { LedgerLimit, RegionRecord } from '../../../shared/core/ledger/types.ts'
import type { Plane } from './store.ts'

interface Certificate {
  readonly atMs: number
  /** Above every incarnation that the region had. */
  readonly leastIncarnation: number
}

/** Admin with its database: one open epoch a limit, closed once every member adopted it or is certified gone. */
export class Planner {
  plane: Plane
  /** What a copy of the database that lags by some changes would say. */
  stalePlane: Plane
  readonly #adopted = new Map<number, Set<string>>()
  readonly #certificates = new Map<string, Certificate>()
  readonly #isPatient: boolean
  /** Limits whose capacity is not what it was. */
  readonly resized = new Set<number>()
  epochs = 0
  removals = 0

  /** `isPatient` false: a certificate counts at once. */
  constructor(regions: readonly string[], limits: readonly LedgerLimit[], isPatient = true) {
    this.#isPatient = isPatient
    this.plane = {
      revision: 1,
      limits: new Map(limits.map((limit) => [limit.id, limit])),
      members: regions,
      formerMembers: [],
      leastIncarnations: {},
    }
    this.stalePlane = this.plane
  }

  /** True when no epoch is open. */
  get isComplete(): boolean {
    return [...this.plane.limits.values()].every((limit) => limit.previousBase === null)
  }

  openEpoch(limitId: number, weights: Record<string, number>): boolean {
    const limit = this.plane.limits.get(limitId)
    if (limit === undefined || limit.previousBase !== null) return false
    const { members } = this.plane
    const here = Object.entries(weights).filter(
      ([region]) => members.includes(region) && !this.#certificates.has(region),
    )
    if (here.every(([, weight]) => weight === 0)) return false
    const base = splitBase(Object.fromEntries(here), limit.capacity)
    this.#adopted.set(limitId, new Set())
    this.stalePlane = this.plane
    this.#change({ ...limit, epoch: limit.epoch + 1, base, previousBase: limit.base })
    return true
  }

  /** Lowers a limit to a part of itself, once. */
  lower(limitId: number, part: number): boolean {
    if (this.resized.has(limitId)) return false
    return this.resize(limitId, part)
  }

  /** Lowers or raises a limit. */
  resize(limitId: number, factor: number): boolean {
    const limit = this.plane.limits.get(limitId)
    if (limit === undefined) return false
    this.resized.add(limitId)
    const [capacity, burst] = [limit.capacity, limit.burst].map((tokens) =>
      Math.max(1, Math.floor(tokens * factor)),
    )
    this.#change({ ...limit, capacity: capacity ?? 1, burst: burst ?? 1 })
    return true
  }

  /** Starts a limit's usage anew: counters with other names. */
  resetUsage(limitId: number): boolean {
    const limit = this.plane.limits.get(limitId)
    if (limit === undefined) return false
    this.#change({ ...limit, usageEpoch: limit.usageEpoch + 1 })
    return true
  }

  /** Takes note of what a record adopts; true when that completed an epoch. */
  hear(record: RegionRecord): boolean {
    if (!this.plane.members.includes(record.from)) return false
    for (const [limitId, epoch] of Object.entries(record.adopted)) {
      const limit = this.plane.limits.get(Number(limitId))
      if (limit?.previousBase == null || epoch < limit.epoch) continue
      this.#adopted.get(limit.id)?.add(record.from)
    }
    return this.#closeAdopted()
  }

  /** An operator swears that a region is fenced off. */
  certify(region: string, certificate: Certificate): void {
    this.#certificates.set(region, certificate)
  }

  isLeaving(region: string): boolean {
    return this.#certificates.has(region)
  }

  /** Goes on with the removal of certified regions; true when the plane changed. */
  advance(nowMs: number): boolean {
    const { revision } = this.plane
    for (const [region, certificate] of this.#certificates) {
      for (const limit of this.plane.limits.values()) {
        if (limit.previousBase === null) this.#moveAway(region, limit)
        else if (this.#counts(certificate, limit, nowMs)) {
          this.#void(region, certificate)
          this.#adopted.get(limit.id)?.add(region)
        }
      }
      this.#closeAdopted()
      if (this.#isWithoutPart(region)) this.#takeOut(region, certificate)
    }
    return this.plane.revision > revision
  }

  /** Registers a removed region anew. */
  admit(region: string): void {
    const members = [...this.plane.members, region].sort()
    const formerMembers = this.plane.formerMembers.filter((other) => other !== region)
    this.plane = { ...this.plane, members, formerMembers, revision: this.plane.revision + 1 }
  }

  #counts({ atMs }: Certificate, limit: LedgerLimit, nowMs: number): boolean {
    if (!this.#isPatient) return true
    const endMs = drainEnd(limit, atMs + LENDER_WAIT_MS) ?? atMs + LENDER_WAIT_MS
    return nowMs >= endMs
  }

  #moveAway(region: string, limit: LedgerLimit): void {
    const stay = Object.entries(limit.base).filter(([other]) => !this.#certificates.has(other))
    if (!(region in limit.base)) return
    const present = this.plane.members.filter((other) => !this.#certificates.has(other))
    const equal = present.map((other) => [other, 1] as const)
    this.openEpoch(limit.id, Object.fromEntries(stay.length > 0 ? stay : equal))
  }

  #isWithoutPart(region: string): boolean {
    return [...this.plane.limits.values()].every(
      ({ base, previousBase }) => !(region in base) && !(region in (previousBase ?? {})),
    )
  }

  #void(region: string, { leastIncarnation }: Certificate): void {
    const known = this.plane.leastIncarnations[region] ?? 0
    if (known >= leastIncarnation) return
    const leastIncarnations = { ...this.plane.leastIncarnations, [region]: leastIncarnation }
    this.plane = { ...this.plane, leastIncarnations, revision: this.plane.revision + 1 }
  }

  #takeOut(region: string, certificate: Certificate): void {
    this.#void(region, certificate)
    this.#certificates.delete(region)
    const members = this.plane.members.filter((other) => other !== region)
    const formerMembers = [...this.plane.formerMembers, region]
    this.plane = { ...this.plane, members, formerMembers, revision: this.plane.revision + 1 }
    this.removals += 1
    this.#closeAdopted()
  }

  #closeAdopted(): boolean {
    let isAnyClosed = false
    for (const limit of this.plane.limits.values()) {
      const adopted = this.#adopted.get(limit.id)
      if (limit.previousBase === null || adopted === undefined) continue
      if (!this.plane.members.every((region) => adopted.has(region))) continue
      this.#change({ ...limit, previousBase: null })
      this.epochs += 1
      isAnyClosed = true
    }
    return isAnyClosed
  }

  #change(limit: LedgerLimit): void {
    const { revision, limits } = this.plane
    const changed = new Map(limits).set(limit.id, limit)
    this.plane = { ...this.plane, revision: revision + 1, limits: changed }
  }
}
