import { describe, expect, it } from 'vitest'
import { pastOf } from '../../../services/sync/boot.ts'
import { RegionMemory } from '../../../services/sync/region-memory.ts'
import type { OpenedStore } from '../../../shared/core/ports.ts'

const opened: OpenedStore = {
  fence: 7,
  scriptsLoaded: true,
  incarnation: 3,
  recovering: false,
  seqReserved: 0,
  policyVersion: 1,
  policyRevision: 1,
  checkTokensAsOfMs: 0,
  planePolicies: [],
  members: [],
  pairs: {},
  rows: [],
  stock: new Map(),
  storeOffsetMs: 0,
  bootedAtStoreMs: 0,
}

describe('what a daemon knows of its past', () => {
  it.each([
    ['a Redis that kept running', {}, 'kept'],
    ['a Redis that lost its scripts', { scriptsLoaded: false }, 'unknown'],
    ['a Redis that was wiped', { incarnation: 0 }, 'unknown'],
    ['a region in the middle of its recovery', { recovering: true }, 'unknown'],
  ])('is, for a process that has just begun and meets %s: %s -> %s', (_, change, past) => {
    expect(pastOf({ ...opened, ...change }, new RegionMemory('us-east-1'))).toBe(past)
  })

  it.each([
    ['a Redis that kept running', {}, 'kept'],
    ['a Redis that lost its scripts', { scriptsLoaded: false }, 'held'],
    ['a Redis that was wiped', { incarnation: 0 }, 'held'],
    ['a Redis with another incarnation than its own', { incarnation: 2 }, 'held'],
    ['a region in the middle of its recovery', { recovering: true }, 'kept'],
  ])('is, for a process that led without a gap and meets %s: %s -> %s', (_, change, past) => {
    const memory = new RegionMemory('us-east-1')
    memory.ledger = { ...memory.ledger, incarnation: 3 }
    expect(pastOf({ ...opened, ...change }, memory)).toBe(past)
  })

  it('is nothing when a peer has heard of a later incarnation', () => {
    const memory = new RegionMemory('us-east-1')
    memory.incarnationHeard = 4
    expect(pastOf(opened, memory)).toBe('unknown')
  })
})
