/** What enforcers and regions say of the policies that they apply. */
import type { RegionId } from './policy.ts'

/** Newer policies that are not applied, and why. */
export interface Refusal {
  readonly revision: number
  readonly reason: string
}

/** What one enforcer applies, in its own words. */
export interface EnforcerStatus {
  /** Of this process alone; another one is another enforcer. */
  readonly id: string
  /** Where its operator finds it. */
  readonly name: string
  /** Absent of one that is older than this field. */
  readonly version?: string | undefined
  /** Newest plane revision that it applies; 0 before the first. */
  readonly revision: number
  /** Wall time at which it began to apply that revision; null before the first. */
  readonly sinceMs: number | null
  readonly refused: Refusal | null
}

/** What a region's daemon says of its region. */
export interface RegionReport {
  readonly from: RegionId
  /** Revision of the policies in the region's Redis; 0 before the first. */
  readonly revision: number
  /** Wall time of the region at which they were written; null before the first. */
  readonly sinceMs: number | null
  /** Newest revision that the region has heard of. */
  readonly heard: number
  readonly refused: Refusal | null
  /** What keeps the region from going on; null: nothing that is known. */
  readonly waitsFor: string | null
  readonly enforcers: readonly EnforcerStatus[]
  /** Enforcers that are alive beside those listed. */
  readonly unlisted: number
}
