import type { CheckRecord } from './check-record.ts'

/** What one region's enforcer answered since the last look. */
export interface RegionCounts {
  readonly offered: number
  readonly admitted: number
  readonly denied: number
}

/** Counts answers per region between two looks. */
export class LiveCounts {
  #counts: { offered: number; admitted: number; denied: number }[]

  constructor(regions: number) {
    this.#counts = zeros(regions)
  }

  add({ region, outcome }: CheckRecord): void {
    const counts = this.#counts[region]
    if (counts === undefined) return
    counts.offered++
    if (outcome === 'admitted') counts.admitted++
    if (outcome === 'denied') counts.denied++
  }

  /** The counts since the last call, per region. */
  take(): readonly RegionCounts[] {
    const taken = this.#counts
    this.#counts = zeros(taken.length)
    return taken
  }
}

function zeros(regions: number): { offered: number; admitted: number; denied: number }[] {
  return Array.from({ length: regions }, () => ({ offered: 0, admitted: 0, denied: 0 }))
}
