import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { ALGORITHMS, type Algorithm, type RegionLimitSpec } from '../../../shared/core/policy.ts'
import type { LimitDecision, RequestCheck } from '../../../shared/core/ports.ts'
import { POOL_UNITS } from '../../../shared/core/units.ts'
import { randomOf } from '../../support/random.ts'
import { aLimit, emptyRow, NOON_US, RedisRegion } from '../../support/redis-region.ts'
import { TEST_OFFSET_MS } from '../../support/test-time.ts'
import { TwinRegion } from '../../support/twin-region.ts'

/**
 * The scripts and the pure algorithms, side by side over random histories: each answer and each count must be the
 * same. A failure names its seed; `SEED=<n>` runs that one alone.
 */

const STEPS = 60
const KEYS = ['acme', 'globex']
const SEEDS = process.env['SEED'] === undefined ? 40 : 1
const FIRST_SEED = Number(process.env['SEED'] ?? 1)

let region: RedisRegion
beforeAll(async () => {
  region = await RedisRegion.start()
})
afterAll(() => region.stop())

type Random = ReturnType<typeof randomOf>

const CAPACITIES = [1, 3, 10, 60, 1_000, 15_001, 1_000_000_007, 2 ** 53 - 1]
const WINDOWS_MS = [1, 7, 100, 1_000, 13_000, 60_000, 3_600_000, 31_622_400_000]
const UNITS = [0, 1, 20_000, 333_333, 600_000, POOL_UNITS]
const STEPS_MS = [
  0, 0, 0.001, 0.5, 1, 33, 99.999, 100, 250, 1_000, 1_300, 60_000, 4e6, -0.5, -40, -11_000, -4e6,
]

function someLimit(random: Random, id: number, algorithm: Algorithm): RegionLimitSpec {
  const capacity = random.pick(CAPACITIES)
  return aLimit({
    id,
    algorithm,
    capacity,
    windowMs: random.pick(WINDOWS_MS),
    burst: random.pick([
      capacity,
      capacity,
      Math.ceil(capacity / 3),
      Math.min(capacity * 4, 2 ** 53 - 1),
    ]),
    home: random.pick(UNITS),
  })
}

function changed(random: Random, spec: RegionLimitSpec): RegionLimitSpec {
  const other = someLimit(random, spec.id, spec.algorithm)
  const fields = ['capacity', 'burst', 'home', 'windowMs'] as const
  return {
    ...spec,
    ...Object.fromEntries([random.pick(fields)].map((field) => [field, other[field]])),
  }
}

/** A region and its twin, driven together. */
class Pair {
  readonly twin = new TwinRegion()
  readonly #random: Random
  #specs: RegionLimitSpec[]
  readonly #admitted: { readonly check: RequestCheck; readonly atUs: number }[] = []

  constructor(random: Random, algorithm: Algorithm) {
    this.#random = random
    this.#specs = [someLimit(random, 1, algorithm), someLimit(random, 2, random.pick(ALGORITHMS))]
  }

  async begin(): Promise<void> {
    const levels = this.#random.pick(['full', 'empty'] as const)
    await region.time.set(NOON_US + this.#random.below(1_000_000))
    await region.begin(this.#specs, { levels })
    this.twin.boot = { startUs: levels === 'full' ? 0 : region.time.us + 1, recovering: false }
  }

  step(): Promise<void> {
    const kinds = [
      () => this.checks(),
      () => this.checks(),
      () => this.checks(),
      () => region.time.advanceMs(this.#random.pick(STEPS_MS)),
      () => region.time.advanceMs(this.#random.pick(STEPS_MS)),
      () => this.giveBack(),
      () => this.release(),
      () => this.share(),
      () => this.share(),
      () => this.policies(),
    ]
    return this.#random.pick(kinds)()
  }

  async checks(): Promise<void> {
    const count = this.#random.pick([1, 1, 2, 5, 20])
    const asked = Array.from({ length: count }, () => this.#someCheck())
    const answers = await Promise.all(
      asked.map((check) => region.checks.check(check, region.version)),
    )
    for (const [index, check] of asked.entries()) {
      const expected = this.twin.check(check, region.time.us)
      const decisions = answers[index]?.decisions ?? []
      expect(decisions).toEqual(expected)
      if (decisions.every(({ allowed }: LimitDecision) => allowed)) {
        this.#admitted.push({ check, atUs: answers[index]?.atUs ?? 0 })
      }
    }
  }

  async giveBack(): Promise<void> {
    const past = this.#admitted.pop()
    if (past === undefined) return
    const check = this.#asOfNow(past.check)
    if (this.#random.below(2) === 0) {
      await region.checks.giveBack(check, region.version, past.atUs)
      this.twin.giveBack(check, past.atUs, region.time.us)
      return
    }
    // Sometimes asked for again; marks expire by real time, which hardly passes here.
    for (let call = 0; call <= this.#random.below(2); call++) {
      const expected = this.twin.refund(check, past.atUs, region.time.us)
      expect(await region.checks.refund(check, region.version, past.atUs)).toEqual(expected)
    }
  }

  async release(): Promise<void> {
    const check = this.#someCheck()
    const { released } = await region.checks.release(check, region.version)
    expect(released).toEqual(this.twin.release(check, region.time.us))
  }

  /** With the limits as they are by now: an enforcer gives back under the policies that it has. */
  #asOfNow(check: RequestCheck): RequestCheck {
    const targets = check.targets.map((target) => ({
      ...target,
      limit: region.limit(target.limit.id),
    }))
    return { ...check, targets }
  }

  async share(): Promise<void> {
    const id = region.counter(this.#random.pick(KEYS), this.#random.pick([1, 2]))
    const home = this.#random.pick(UNITS)
    const isBorrowing = this.#random.below(2) === 0
    const write = {
      id,
      home,
      borrowed: isBorrowing ? Math.min(this.#random.pick(UNITS), POOL_UNITS - home) : 0,
      expiresAtMs: isBorrowing
        ? region.time.us / 1_000 - TEST_OFFSET_MS + this.#random.pick([-5, 0.25, 40, 1_000, 9_000])
        : null,
      shrinks: this.#random.below(2) === 0,
      pinned: this.#random.below(2) === 0,
      row: this.#random.below(5) === 0 ? null : emptyRow(id),
    }
    const limit = region.limit(Number(/}(\d+)/.exec(id)?.[1]))
    const expected = this.twin.writeShare(write, limit, region.time.us)
    expect((await region.daemon.writeShares([write])).get(id)).toBe(expected)
  }

  async policies(): Promise<void> {
    this.#specs = this.#specs.map((spec) =>
      this.#random.below(2) === 0 ? spec : changed(this.#random, spec),
    )
    const recovering = this.#random.below(6) === 0
    await region.write(this.#specs, recovering)
    this.twin.boot = { ...this.twin.boot, recovering }
  }

  /** Counts of tracked counters, as the daemon reads them. */
  async compareCounts(): Promise<void> {
    // A clock of before the boot would ask for a new one.
    await region.time.set(Math.max(region.time.us, this.twin.boot.startUs))
    const { samples, missing } = await region.daemon.collect()
    expect(missing).toEqual([])
    const expected = [...this.twin.counters]
      .filter(([, { share }]) => share !== null)
      .map(([id, { admitted, denied, returned }]) => ({ id, admitted, denied, returned }))
    const byId = (a: { id: string }, b: { id: string }): number => a.id.localeCompare(b.id)
    expect([...samples].sort(byId)).toEqual(expected.sort(byId))
  }

  #someCheck(): RequestCheck {
    const ids = this.#random.pick([[1], [1], [2], [1, 2], [2, 1]])
    const { capacity } = region.limit(ids[0])
    const costs = [
      0,
      1,
      1,
      1,
      2,
      Math.ceil(capacity / 7),
      capacity,
      Math.min(capacity + 1, 2 ** 53 - 1),
    ]
    const requestId = `request-${this.#random.below(12)}`
    return { ...region.target(this.#random.pick(costs), this.#random.pick(KEYS), ids), requestId }
  }
}

describe('the scripts on Redis', () => {
  it.each(ALGORITHMS)(
    `decide ${SEEDS * STEPS} random steps of a %s as the pure algorithm does`,
    {
      timeout: 120_000,
    },
    async (algorithm) => {
      for (let seed = FIRST_SEED; seed < FIRST_SEED + SEEDS; seed++) {
        const pair = new Pair(randomOf(seed), algorithm)
        await pair.begin()
        try {
          for (let step = 0; step < STEPS; step++) await pair.step()
          await pair.compareCounts()
        } catch (err) {
          throw new Error(`SEED=${seed}`, { cause: err })
        }
      }
    },
  )
})
