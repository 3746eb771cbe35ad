import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { ALGORITHMS, type Algorithm } from '../../../shared/core/policy.ts'
import type { LimitDecision } from '../../../shared/core/ports.ts'
import { aLimit, NOON_US, RedisRegion } from '../../support/redis-region.ts'

/** What users of limiters met elsewhere, over all algorithms that the case is about. Buckets alone: token-bucket.test.ts. */

let region: RedisRegion
beforeAll(async () => {
  region = await RedisRegion.start()
})
afterAll(() => region.stop())

const WINDOWS = ['fixed_window', 'sliding_window', 'sliding_log', 'sliding_counter'] as const
const BUCKETS = ['token_bucket', 'leaky_bucket'] as const
const TIMED = [...BUCKETS, ...WINDOWS] as const

async function begin(limit: Parameters<typeof aLimit>[0], atMs = 0): Promise<void> {
  await region.time.set(NOON_US + atMs * 1_000)
  await region.begin([aLimit(limit)])
}

/** `ms` after noon, where windows of all lengths used here begin. */
async function checkAt(ms: number, cost = 1): Promise<LimitDecision> {
  await region.time.set(NOON_US + Math.round(ms * 1_000))
  return region.check(cost)
}

/** Of checks at these instants, those that are admitted. */
async function admittedAt(instants: readonly number[]): Promise<readonly number[]> {
  const admitted: number[] = []
  for (const ms of instants) if ((await checkAt(ms)).allowed) admitted.push(ms)
  return admitted
}

function every(stepMs: number, count: number, fromMs = 0): readonly number[] {
  return Array.from({ length: count }, (_, index) => fromMs + index * stepMs)
}

function key(): string {
  return `c:${region.counter()}`
}

describe.each(BUCKETS)('a %s', (algorithm) => {
  it('B001: gives fractions of tokens back under steady traffic', async () => {
    await begin({ algorithm, capacity: 10, windowMs: 30_000 })
    const remaining: number[] = []
    for (const ms of every(1_000, 11)) remaining.push((await checkAt(ms)).remaining)
    expect(remaining).toEqual([9, 8, 7, 7, 6, 5, 5, 4, 3, 3, 2])
  })

  it('B002: refills half in half its window, whatever the second', async () => {
    for (const phaseMs of [0, 900]) {
      await begin({ algorithm, capacity: 10 }, phaseMs)
      expect(await region.admitted(10)).toBe(10)
      await region.time.advanceMs(500)
      expect(await region.admitted(10)).toBe(5)
    }
  })

  it('B004: paces more than a thousand a second', async () => {
    await begin({ algorithm, capacity: 2_000, burst: 1 })
    expect(await admittedAt(every(0.5, 200))).toHaveLength(200)
    await begin({ algorithm, capacity: 2_000, burst: 1 })
    expect(await admittedAt(every(0.25, 400))).toHaveLength(200)
  })

  it('B007: admits exactly when a token is due, and not a millisecond before', async () => {
    await begin({ algorithm, capacity: 1, windowMs: 3_600_000 })
    expect((await checkAt(0)).allowed).toBe(true)
    expect(await checkAt(3_599_000)).toMatchObject({ allowed: false, retryAfterMs: 1_000 })
    expect((await checkAt(3_600_000)).allowed).toBe(true)
    await begin({ algorithm, capacity: 10, windowMs: 13_000, burst: 1 })
    expect(await admittedAt(every(1_300, 100))).toHaveLength(100)
  })

  it.each([1_000_000_000, Number.MAX_SAFE_INTEGER])(
    'B010: of %d tokens a second is exactly full after 400 idle days',
    async (capacity) => {
      await begin({ algorithm, capacity })
      expect(await checkAt(0)).toMatchObject({ remaining: capacity - 1 })
      expect(await checkAt(400 * 86_400_000)).toMatchObject({ remaining: capacity - 1 })
    },
  )

  it('B022, B026: keeps its pace however long it was idle', async () => {
    await begin({ algorithm, capacity: 3 })
    expect(await admittedAt(every(100, 31))).toEqual([
      0, 100, 200, 400, 700, 1_000, 1_400, 1_700, 2_000, 2_400, 2_700, 3_000,
    ])
    await begin({ algorithm, capacity: 1 })
    await region.check()
    await region.time.advanceMs(30_000)
    expect(await region.admitted(13)).toBe(1)
    await region.time.advanceMs(1_000)
    expect(await region.admitted(6)).toBe(1)
  })

  it('B025: has no bonus after an idle spell', async () => {
    await begin({ algorithm, capacity: 20, burst: 100 })
    await region.time.advanceMs(5_000)
    expect((await region.check(100)).remaining).toBe(0)
    expect(await region.check()).toMatchObject({ allowed: false, retryAfterMs: 50 })
    await begin({ algorithm, capacity: 3, windowMs: 500 })
    expect(await admittedAt([5_000, 5_016, 5_033])).toHaveLength(3)
    expect(await checkAt(5_050)).toMatchObject({ allowed: false, retryAfterMs: 117 })
  })

  it('B035: lets a cost of its whole capacity pass once it is full', async () => {
    await begin({ algorithm, capacity: 10, windowMs: 60_000 })
    expect(await checkAt(0, 10)).toMatchObject({ allowed: true })
    expect(await checkAt(30_000, 10)).toMatchObject({ allowed: false, retryAfterMs: 30_000 })
    expect(await checkAt(59_999, 10)).toMatchObject({ allowed: false, retryAfterMs: 1 })
    expect(await checkAt(60_000, 10)).toMatchObject({ allowed: true })
  })

  it('B061: says when it is full again', async () => {
    await begin({ algorithm, capacity: 2, windowMs: 60_000 })
    expect(await region.check()).toMatchObject({ resetMs: 30_000 })
    await begin({ algorithm, capacity: 30, windowMs: 60_000, burst: 16 })
    expect(await region.check()).toMatchObject({ resetMs: 2_000 })
  })

  it('refuses 1 of 0.4 tokens with a wait of 0.3 s, unchanged, and admits when it is due', async () => {
    // Burst 10, 2 a second: 4 tokens at 100.0 s.
    await begin({ algorithm, capacity: 2, burst: 10 }, 100_000)
    await region.check(6)
    expect(await region.check(0)).toMatchObject({ remaining: 4 })
    expect(await checkAt(102_200, 8)).toMatchObject({ allowed: true, remaining: 0 })
    const before = await region.redis.dumpBuffer(key())
    expect(await region.check()).toMatchObject({ allowed: false, retryAfterMs: 300 })
    expect(await region.redis.dumpBuffer(key())).toEqual(before)
    expect((await checkAt(102_499.999)).allowed).toBe(false)
    expect((await checkAt(102_500)).allowed).toBe(true)
  })
})

describe('windows', () => {
  it('B011: of 1 in two minutes admit it once in each, the counter every other', async () => {
    const instants = [0, 119_999, 120_000, 239_999, 240_000]
    for (const algorithm of [...BUCKETS, 'fixed_window', 'sliding_log'] as const) {
      await begin({ algorithm, capacity: 1, windowMs: 120_000 })
      expect(await admittedAt(instants), algorithm).toEqual([0, 120_000, 240_000])
    }
    await begin({ algorithm: 'sliding_counter', capacity: 1, windowMs: 120_000 })
    expect(await admittedAt(instants)).toEqual([0, 240_000])
  })

  it('B013: keep to their own edges', async () => {
    const full = async (algorithm: Algorithm): Promise<void> => {
      await begin({ algorithm, capacity: 10, windowMs: 60_000 }, 59_999)
      expect(await region.admitted(11)).toBe(10)
    }
    await full('fixed_window')
    await region.time.set(NOON_US + 60_000_000)
    expect(await region.admitted(11)).toBe(10)
    await full('sliding_log')
    expect(await checkAt(119_998)).toMatchObject({ allowed: false, retryAfterMs: 1 })
    expect(await checkAt(119_999)).toMatchObject({ allowed: true })
    await full('sliding_window')
    expect((await checkAt(119_999)).allowed).toBe(false)
    expect((await checkAt(122_999)).allowed).toBe(true)
    await full('sliding_counter')
    expect(await checkAt(60_000)).toMatchObject({ allowed: false, retryAfterMs: 6_000 })
    expect((await checkAt(65_999)).allowed).toBe(false)
    expect((await checkAt(66_000)).allowed).toBe(true)
  })

  it('B013: a sliding counter admits less than twice its limit in any window', async () => {
    await begin({ algorithm: 'sliding_counter', capacity: 100 }, 999)
    expect(await region.admitted(100)).toBe(100)
    const later = await admittedAt(every(1, 1_000, 1_000))
    const inWindow = later.filter((ms) => ms < 1_999)
    expect(100 + inWindow.length).toBe(199)
  })

  it('B014: a sliding counter weighs the last window in what it says remains', async () => {
    await begin({ algorithm: 'sliding_counter', capacity: 100, windowMs: 60_000 })
    await checkAt(0, 50)
    await checkAt(66_000, 10)
    expect(await region.check(0)).toMatchObject({ remaining: 45 })
    expect(await region.admitted(46)).toBe(45)
  })

  it.each([
    ['sliding_log', 2],
    ['sliding_window', 1],
    ['sliding_counter', 1],
  ] as const)('B016: a %s remembers a whole window', async (algorithm, expected) => {
    await begin({ algorithm, capacity: 10, windowMs: 3_600_000 })
    await checkAt(0)
    await checkAt(3_540_000, 8)
    await region.time.set(NOON_US + 3_660_000_000)
    expect(await region.admitted(3)).toBe(expected)
    if (algorithm === 'sliding_log') {
      expect(await region.check()).toMatchObject({ allowed: false, retryAfterMs: 3_480_000 })
    }
  })

  it.each(WINDOWS)('B017: a %s forgets after a gap', async (algorithm) => {
    await begin({ algorithm, capacity: 10, windowMs: 60_000 })
    for (const ms of [0, 126_000, 36_000_000]) {
      await region.time.set(NOON_US + ms * 1_000)
      expect(await region.admitted(12), `${ms}`).toBe(10)
    }
  })

  it('B020: a sliding log gives back exactly a window later', async () => {
    await begin({ algorithm: 'sliding_log', capacity: 5 })
    expect(await region.admitted(6)).toBe(5)
    expect(await checkAt(999)).toMatchObject({ allowed: false, retryAfterMs: 1 })
    expect(await checkAt(1_000)).toMatchObject({ allowed: true })
  })

  it.each(WINDOWS)('B074, B119: a %s keeps its usage when its limit changes', async (algorithm) => {
    await begin({ algorithm, capacity: 10, windowMs: 3_600_000 })
    expect(await region.admitted(50)).toBe(10)
    await region.write([aLimit({ algorithm, capacity: 20, windowMs: 3_600_000 })])
    expect(await region.admitted(15)).toBe(10)
    await region.write([aLimit({ algorithm, capacity: 5, windowMs: 3_600_000 })])
    expect(await region.check(0)).toMatchObject({ allowed: false, remaining: 0 })
  })

  it.each(WINDOWS)('B074: a %s raised from 10 to 12 with 8 used has 4 left', async (algorithm) => {
    await begin({ algorithm, capacity: 10, windowMs: 3_600_000 })
    expect(await region.admitted(8)).toBe(8)
    await region.write([aLimit({ algorithm, capacity: 12, windowMs: 3_600_000 })])
    expect(await region.admitted(10)).toBe(4)
  })

  it('a sliding counter whose windows change forgets nothing and locks for no longer than they are', async () => {
    const algorithm = 'sliding_counter'
    await begin({ algorithm, capacity: 10, windowMs: 3_600_000 }, 3_599_000)
    expect(await region.admitted(10)).toBe(10)
    await region.write([aLimit({ algorithm, capacity: 10, windowMs: 1_000 })])
    expect((await region.check()).allowed).toBe(false)
    await region.time.advanceMs(2_000)
    expect(await region.admitted(11)).toBe(10)
  })
})

describe.each(ALGORITHMS)('a limit by %s', (algorithm) => {
  it('B005: admits a thousand at once and not one more, and its key has an expiry', async () => {
    await begin({ algorithm, capacity: 1_000, windowMs: 60_000 })
    expect(await region.check()).toMatchObject({ allowed: true, remaining: 999 })
    expect(await region.admitted(1_000)).toBe(999)
    expect(await region.redis.pttl(key())).toBeGreaterThan(0)
  })

  it('B019, B032: of 5 admits exactly 5 of a thousand at once, the last with 0 remaining', async () => {
    await begin({ algorithm, capacity: 5 })
    const all = await Promise.all(Array.from({ length: 1_000 }, () => region.check()))
    expect(all.filter(({ allowed }) => allowed).map(({ remaining }) => remaining)).toEqual([
      4, 3, 2, 1, 0,
    ])
    expect(await region.check(0)).toMatchObject({ allowed: false, remaining: 0 })
  })

  it('B058: waits for at least a millisecond when it denies', async () => {
    await begin({ algorithm, capacity: 3, windowMs: 1_000 })
    await region.admitted(3)
    for (const ms of [0, 0.001, 1, 333.333, 999, 999.999]) {
      const { allowed, retryAfterMs } = await checkAt(ms)
      if (!allowed) expect(retryAfterMs).toBeGreaterThanOrEqual(1)
    }
  })

  it('B064: says whole remaining tokens within its limit and a reset', async () => {
    await begin({ algorithm, capacity: 3, windowMs: 60_000 })
    for (const cost of [0, 1, 1, 1, 1, 0, 4]) {
      const { remaining, resetMs } = await region.check(cost)
      expect(Number.isInteger(remaining) && remaining >= 0 && remaining <= 3).toBe(true)
      expect(Number.isInteger(resetMs) && resetMs >= 0).toBe(true)
    }
  })

  it('B070: heals a key that lost its expiry', async () => {
    await begin({ algorithm, capacity: 2, windowMs: 10_000 })
    await region.admitted(3)
    await region.redis.persist(key())
    await region.time.advanceMs(20_000)
    expect((await region.check()).allowed).toBe(true)
    expect(await region.redis.pttl(key())).toBeGreaterThan(0)
  })

  it('changes nothing by a denial or a read', async () => {
    await begin({ algorithm, capacity: 2, windowMs: 60_000 })
    await region.admitted(2)
    const before = await region.redis.dumpBuffer(key())
    await region.time.advanceMs(5_000)
    expect(await region.admitted(100)).toBe(0)
    await region.check(0)
    expect(await region.redis.dumpBuffer(key())).toEqual(before)
  })

  it('B122: begins afresh where it follows any other algorithm, tracked or not', async () => {
    for (const other of ALGORITHMS.filter((one) => one !== algorithm)) {
      await begin({ algorithm: other, capacity: 4, windowMs: 60_000 }, 5)
      await region.admitted(6)
      if (other !== 'concurrency') await region.share({ id: region.counter(), pinned: true })
      await region.write([aLimit({ algorithm, capacity: 9, windowMs: 60_000 })])
      expect(await region.admitted(12), other).toBe(9)
    }
  })

  it('treats a value that it cannot read as none', async () => {
    await begin({ algorithm, capacity: 3, windowMs: 60_000 })
    for (const text of ['', 'x', '\x83', 'x'.repeat(37), '\x86'.repeat(60), 'y'.repeat(5_000)]) {
      await region.redis.set(key(), Buffer.from(text, 'latin1'))
      expect(await region.admitted(5)).toBe(3)
    }
  })

  it('of 0 denies everything, for good', async () => {
    await begin({ algorithm, capacity: 0, burst: 0 })
    const { allowed, remaining, retryAfterMs } = await region.check()
    expect({ allowed, remaining, retryAfterMs }).toEqual({
      allowed: false,
      remaining: 0,
      retryAfterMs: null,
    })
  })
})

describe.each(TIMED)('the clock of Redis and a %s', (algorithm) => {
  it('B109: set back, locks nobody out and opens nothing again', async () => {
    await begin({ algorithm, capacity: 10, windowMs: 10_000 }, 15_000)
    await region.check(3)
    expect(await checkAt(4_000)).toMatchObject({ allowed: true, remaining: 6 })
    expect(await checkAt(15_000)).toMatchObject({ allowed: true, remaining: 5 })
    expect(await checkAt(15_000 - 3_600_000)).toMatchObject({ allowed: true, remaining: 4 })
  })

  it('B110: set forward and right again, gives one capacity at most and locks for two windows at most', async () => {
    await begin({ algorithm, capacity: 10, windowMs: 10_000 })
    expect(await region.admitted(11)).toBe(10)
    await region.time.advanceMs(3_600_000)
    expect(await region.admitted(11)).toBe(10)
    expect((await checkAt(1)).allowed).toBe(false)
    expect((await checkAt(20_001)).allowed).toBe(true)
  })
})
