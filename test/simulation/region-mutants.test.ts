import { describe, expect, it } from 'vitest'
import { hunt, REGION_HUNTS } from './kills.ts'
import { REGION_WORKLOADS } from './region-mutants.ts'
import { eachSeed } from './seeds.ts'

describe('a region in which', () => {
  it.each(REGION_HUNTS)('$rule is caught', (one) => {
    expect(hunt(one), `no seed up to ${one.seedsMax} shows it`).not.toBeNull()
  })
})

describe('the faithful region', () => {
  it('passes the workloads that catch its broken variants', () => {
    for (const workload of REGION_WORKLOADS)
      eachSeed(3, (seed) => expect(workload(seed)).toBe(false))
  })
})
