import { describe, expect, it } from 'vitest'
import { stampLimit } from '../../../shared/core/algorithms/stamp-limit.ts'
import { tokenBucket } from '../../../shared/core/algorithms/token-bucket.ts'
import { POOL_UNITS } from '../../../shared/core/units.ts'
import { PLAIN_LIMIT } from '../../support/region-policy.ts'

const SPEC = {
  ...PLAIN_LIMIT,
  id: 1,
  name: 'per-second',
  algorithm: 'token_bucket',
  capacity: 20,
  windowMs: 1_000,
  burst: 10,
  usageEpoch: 0,
  home: POOL_UNITS,
} as const

describe('a bucket that is not stored', () => {
  it('begins empty at a boot, though its limit was slowed down just before', () => {
    const boot = { startUs: 0, recovering: false }
    const first = stampLimit(undefined, SPEC, { version: 1, nowUs: 0, boot })
    const slower = { ...SPEC, capacity: 5 }
    const edited = stampLimit(first, slower, { version: 2, nowUs: 1_000_000, boot })
    const later = { startUs: 1_000_100, recovering: false }
    const stamped = stampLimit(edited, slower, { version: 3, nowUs: 1_000_200, boot: later })
    const circumstances = { limit: stamped, share: null, boot: later }
    const levelAt = (nowUs: number): number =>
      tokenBucket.settle(null, { ...circumstances, nowUs }).remaining
    expect(levelAt(1_000_200)).toBe(0)
    expect(levelAt(1_000_100 + 200_000)).toBe(1)
  })
})
