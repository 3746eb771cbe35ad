import { afterAll, beforeAll, expect, it } from 'vitest'
import { ALGORITHMS, type Algorithm } from '../../../shared/core/policy.ts'
import { POOL_UNITS } from '../../../shared/core/units.ts'
import { ALGORITHM_CODES } from '../../../shared/redis/layout.ts'
import { randomOf } from '../../support/random.ts'
import { aLimit, NOON_US, RedisRegion, shareOf } from '../../support/redis-region.ts'

/** Counters whose fields hold what no script writes: a bug, another program, a disk. A failure names its seed. */

const WINDOW_MS = 10_000
const CAPACITY = 3
const ROUNDS = 40

const NUMBERS = [
  Number.NaN,
  Number.POSITIVE_INFINITY,
  Number.NEGATIVE_INFINITY,
  -1,
  0,
  0.5,
  1,
  CAPACITY + 1,
  1e300,
  -1e300,
  2 ** 53,
  -(2 ** 53),
  NOON_US,
  NOON_US + 3_600_000_000,
  NOON_US - 3_600_000_000,
] as const

/** One that is as great as one of these, and whole, may be of policies to come: it is not decided before these are known. */
const VERSIONS = NUMBERS.filter((one) => !Number.isInteger(one) || one <= 0 || one > 2 ** 53)

let region: RedisRegion
beforeAll(async () => {
  region = await RedisRegion.start()
})
afterAll(() => region.stop())

function doubles(random: ReturnType<typeof randomOf>, count: number): Buffer {
  const bytes = Buffer.alloc(8 * count)
  for (let index = 0; index < count; index++) bytes.writeDoubleLE(random.pick(NUMBERS), 8 * index)
  return bytes
}

/** A value of the right layout whose numbers are anything; what its share is, is right. */
function corrupt(algorithm: Algorithm, random: ReturnType<typeof randomOf>): Buffer {
  const head = Buffer.alloc(37)
  head[0] = ALGORITHM_CODES[algorithm]
  // Of the present version as a rule: others are settled otherwise.
  head.writeDoubleLE(random.below(3) === 0 ? random.pick(VERSIONS) : region.version, 1)
  doubles(random, 3).copy(head, 9)
  head.writeUInt32LE(random.below(2 ** 32), 33)
  const body = doubles(random, random.below(8)).subarray(random.below(2))
  return Buffer.concat([head, body])
}

async function survives(algorithm: Algorithm, seed: number): Promise<void> {
  const random = randomOf(seed)
  await region.time.set(NOON_US)
  await region.begin([aLimit({ algorithm, capacity: CAPACITY, windowMs: WINDOW_MS })])
  const key = `c:${region.counter()}`
  await region.redis.set(key, corrupt(algorithm, random))
  let admitted = 0
  for (const cost of [0, 1, 1, 1, 1, 1]) {
    const { allowed, remaining, resetMs, retryAfterMs } = await region.check(cost)
    if (allowed && cost > 0) admitted++
    expect(Number.isInteger(remaining) && remaining >= 0 && remaining <= CAPACITY).toBe(true)
    expect(resetMs >= 0 && resetMs <= 2 * WINDOW_MS).toBe(true)
    const waits = retryAfterMs ?? 0
    expect(waits >= 0 && waits <= 2 * WINDOW_MS).toBe(true)
  }
  expect(admitted).toBeLessThanOrEqual(CAPACITY)
  expect(await region.share(shareOf(region.counter()))).toMatch(/written|occupied/)
  await region.time.advanceMs(3 * WINDOW_MS)
  expect(await region.admitted(2 * CAPACITY)).toBe(CAPACITY)
}

it.each(ALGORITHMS)(
  'a %s whose fields are corrupt admits no more than its share, and is right again within two windows',
  async (algorithm) => {
    for (let seed = 1; seed <= ROUNDS; seed++) {
      try {
        await survives(algorithm, seed)
      } catch (err) {
        throw new Error(`seed ${seed}`, { cause: err })
      }
    }
  },
)

/** Where a share's fields lie in a value, and what no daemon writes there. */
const NO_SHARES: readonly (readonly [what: string, offset: number, bytes: Buffer])[] = [
  ['more than the whole', 69, uint32(POOL_UNITS + 1)],
  ['a loan of more than the whole', 73, uint32(2 ** 32 - 1)],
  ['a loan that ends never', 77, double(Number.POSITIVE_INFINITY)],
  ['a loan that ends at no time', 77, double(Number.NaN)],
  ['a boot that was not yet', 61, double(2 ** 52)],
  ['no boot', 61, double(Number.NaN)],
  ['fewer than no tokens admitted', 37, double(-1)],
  ['no count of denials', 45, double(Number.NaN)],
]

function uint32(value: number): Buffer {
  const bytes = Buffer.alloc(4)
  bytes.writeUInt32LE(value)
  return bytes
}

function double(value: number): Buffer {
  const bytes = Buffer.alloc(8)
  bytes.writeDoubleLE(value)
  return bytes
}

it.each(ALGORITHMS)(
  'a %s whose share is corrupt admits nothing, whatever its own part is, is told of, and goes on once its share is written again',
  async (algorithm) => {
    for (const [what, offset, bytes] of NO_SHARES) {
      await region.time.set(NOON_US)
      await region.begin([aLimit({ algorithm, capacity: 10, windowMs: WINDOW_MS })])
      const id = region.counter()
      const key = `c:${id}`
      // Most of its own part is lent out.
      const lent = { id, home: POOL_UNITS / 5, shrinks: true }
      expect(await region.share(lent), what).toBe('written')
      expect(await region.admitted(1), what).toBe(1)
      await region.redis.setrange(key, offset, bytes as unknown as string)
      for (let round = 0; round < 2; round++) {
        expect(await region.check(1), what).toMatchObject({ allowed: false, reason: 'limit' })
        const { missing, corrupt, samples } = await region.daemon.collect()
        expect({ missing, corrupt, samples }, what).toEqual({
          missing: [id],
          corrupt: [id],
          samples: [],
        })
      }
      expect(await region.share(lent), what).toBe('written')
      expect((await region.daemon.collect()).corrupt, what).toEqual([])
      await region.time.advanceMs(2 * WINDOW_MS)
      expect(await region.admitted(10), what).toBe(2)
    }
  },
)
