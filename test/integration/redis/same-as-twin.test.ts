import { isDeepStrictEqual } from 'node:util'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { mostAtOnce } from '../../../shared/core/algorithms/algorithm.ts'
import type { ShareWrite } from '../../../shared/core/ledger/types.ts'
import { ALGORITHMS, type Algorithm, type RegionLimitSpec } from '../../../shared/core/policy.ts'
import type { CheckAnswer, LimitDecision, RequestCheck } from '../../../shared/core/ports.ts'
import { POOL_UNITS } from '../../../shared/core/units.ts'
import { randomOf } from '../../support/random.ts'
import {
  aLimit,
  connectDaemon,
  emptyRow,
  NOON_US,
  RedisRegion,
} from '../../support/redis-region.ts'
import { TEST_OFFSET_MS } from '../../support/test-time.ts'
import { TwinRegion } from '../../support/twin-region.ts'

/**
 * The scripts and the pure algorithms, side by side over random histories: each answer and each count must be the
 * same. One seed is a region that goes through edits, new fences, restarts, wipes and clocks that are set, with many
 * keys that each have a history of their own in it. A failure names its seed; `SEED=<n>` runs that one alone.
 */

type RandomSource = ReturnType<typeof randomOf>

const STEPS = 50
const KEYS = 100
const SEEDS = process.env['SEED'] === undefined ? 20 : 1
const FIRST_SEED = Number(process.env['SEED'] ?? 1)

let region: RedisRegion
beforeAll(async () => {
  region = await RedisRegion.start()
})
afterAll(() => region.stop())

const CAPACITIES = [1, 3, 10, 60, 1_000, 15_001, 1_000_000_007, 2 ** 53 - 1]
const WINDOWS_MS = [1, 7, 100, 1_000, 13_000, 60_000, 3_600_000, 31_622_400_000]
const UNITS = [0, 1, 20_000, 333_333, 600_000, POOL_UNITS]
const STEPS_MS = [
  0, 0, 0.001, 0.5, 1, 33, 99.999, 100, 250, 1_000, 1_300, 60_000, 4e6, -0.5, -40, -11_000, -4e6,
]

/** Each algorithm has two limits with numbers of their own. */
const LIMITS = [...ALGORITHMS, ...ALGORITHMS].map((algorithm, index) => ({
  id: index + 1,
  algorithm,
}))

interface LimitId {
  readonly id: number
  readonly algorithm: Algorithm
}

function someLimit(random: RandomSource, { id, algorithm }: LimitId): RegionLimitSpec {
  const capacity = random.pick(CAPACITIES)
  const bursts = [capacity, capacity, Math.ceil(capacity / 3), Math.min(capacity * 4, 2 ** 53 - 1)]
  return aLimit({
    id,
    algorithm,
    capacity,
    windowMs: random.pick(WINDOWS_MS),
    burst: random.pick(bursts),
    home: random.pick(UNITS),
  })
}

function changed(random: RandomSource, spec: RegionLimitSpec): RegionLimitSpec {
  const other = someLimit(random, spec)
  const field = random.pick(['capacity', 'burst', 'home', 'windowMs'] as const)
  return { ...spec, [field]: other[field] }
}

/** Checks that are sent at once; those of another kind go to Redis by another script, in no order with these. */
function runsOfAKind(checks: readonly RequestCheck[]): readonly RequestCheck[][] {
  const runs: RequestCheck[][] = []
  let last: boolean | null = null
  for (const check of checks) {
    const kind = isOfOneLimit(check)
    if (kind === last) runs.at(-1)?.push(check)
    else runs.push([check])
    last = kind
  }
  return runs
}

function isOfOneLimit({ targets, cost }: RequestCheck): boolean {
  const [target] = targets
  return target !== undefined && targets.length === 1 && cost <= mostAtOnce(target.limit)
}

/** One key under one or two limits, on Redis and in the twin. What it does in a step is sent at once. */
class Lane {
  readonly #random: RandomSource
  readonly #twin: TwinRegion
  readonly #key: string
  readonly #ids: readonly number[]
  #admitted: { readonly check: RequestCheck; readonly atUs: number }[] = []

  constructor(random: RandomSource, twin: TwinRegion, key: string) {
    this.#random = random
    this.#twin = twin
    this.#key = key
    this.#ids = [1 + random.below(LIMITS.length), 1 + random.below(LIMITS.length)]
  }

  /** Sends this step's work; what comes back is compared. A share is returned to be written with the others. */
  step(): { readonly compared: Promise<void>; readonly share: ShareWrite | null } {
    const kind = this.#random.pick(['checks', 'checks', 'checks', 'back', 'release', 'share'])
    if (kind === 'share') return { compared: Promise.resolve(), share: this.someShare() }
    if (kind === 'release') return { compared: this.#release(), share: null }
    if (kind === 'back') return { compared: this.#giveBack(), share: null }
    return { compared: this.#checks(), share: null }
  }

  /** What was admitted before its Redis was wiped is forgotten. */
  forget(): void {
    this.#admitted = []
  }

  async #checks(): Promise<void> {
    const asked = Array.from({ length: this.#random.pick([1, 1, 2, 5]) }, () => this.#someCheck())
    const expected = asked.map((check) => this.#twin.check(check, region.time.us))
    const answers: CheckAnswer[] = []
    for (const together of runsOfAKind(asked)) {
      const all = together.map((check) => region.checks.check(check, region.version))
      answers.push(...(await Promise.all(all)))
    }
    for (const [index, check] of asked.entries()) {
      const decisions = answers[index]?.decisions ?? []
      this.#compare(decisions, expected[index])
      if (decisions.every(({ allowed }: LimitDecision) => allowed)) {
        this.#admitted.push({ check, atUs: answers[index]?.atUs ?? 0 })
      }
    }
  }

  async #giveBack(): Promise<void> {
    const past = this.#admitted.pop()
    if (past === undefined) return
    const check = this.#asOfNow(past.check)
    if (this.#random.below(2) === 0) {
      this.#twin.giveBack(check, past.atUs, region.time.us)
      await region.checks.giveBack(check, region.version, past.atUs)
      return
    }
    // Sometimes asked for again; marks expire by real time, which hardly passes here.
    const calls = Array.from({ length: 1 + this.#random.below(2) }, () => check)
    const expected = calls.map((one) => this.#twin.refund(one, past.atUs, region.time.us))
    for (const [index, one] of calls.entries()) {
      const answer = await region.checks.refund(one, region.version, past.atUs)
      this.#compare(answer, expected[index])
    }
  }

  async #release(): Promise<void> {
    const check = this.#someCheck()
    const expected = this.#twin.release(check, region.time.us)
    const { released } = await region.checks.release(check, region.version)
    this.#compare(released, expected)
  }

  /** Half a million answers: the matcher, which is slower, only says what differs. */
  #compare(answer: unknown, expected: unknown): void {
    if (!isDeepStrictEqual(answer, expected)) expect(answer, this.#key).toEqual(expected)
  }

  /** With the limits as they are by now: an enforcer gives back under the policies that it has. */
  #asOfNow(check: RequestCheck): RequestCheck {
    const targets = check.targets.map((target) => ({
      ...target,
      limit: region.limit(target.limit.id),
    }))
    return { ...check, targets }
  }

  someShare(): ShareWrite {
    const id = region.counter(this.#key, this.#random.pick(this.#ids))
    const home = this.#random.pick(UNITS)
    const isBorrowing = this.#random.below(2) === 0
    return {
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
  }

  #someCheck(): RequestCheck {
    const [one = 1, other = 1] = this.#ids
    const ids = this.#random.pick(one === other ? [[one]] : [[one], [other], [one, other]])
    const { capacity } = region.limit(ids[0])
    const sevenths = Math.ceil(capacity / 7)
    const costs = [0, 1, 1, 1, 2, sevenths, capacity, Math.min(capacity + 1, 2 ** 53 - 1)]
    const requestId = `${this.#key} ${this.#random.below(12)}`
    return { ...region.target(this.#random.pick(costs), this.#key, ids), requestId }
  }
}

/** A region and its twin, driven together. */
class Pair {
  readonly #random: RandomSource
  readonly #twin = new TwinRegion()
  readonly #lanes: readonly Lane[]
  #specs: RegionLimitSpec[]
  #incarnation = 1

  constructor(random: RandomSource) {
    this.#random = random
    this.#specs = LIMITS.map((limit) => someLimit(random, limit))
    this.#lanes = Array.from(
      { length: KEYS },
      (_, index) => new Lane(randomOf(random.below(2 ** 31)), this.#twin, `key-${index}`),
    )
  }

  async begin(): Promise<void> {
    await region.time.set(NOON_US + this.#random.below(1_000_000))
    await this.#wipe(this.#random.pick(['full', 'empty'] as const))
  }

  step(): Promise<void> {
    const dice = this.#random.below(40)
    if (dice < 16) return region.time.advanceMs(this.#random.pick(STEPS_MS))
    if (dice < 18) return this.#edit()
    if (dice < 19) return this.#restart()
    if (dice < 20) return this.#random.below(2) === 0 ? this.#newFence() : this.#wipe('empty')
    return this.#everyKey()
  }

  async #everyKey(): Promise<void> {
    const steps = this.#lanes.map((lane) => lane.step())
    const shares = steps.flatMap(({ share }) => (share === null ? [] : [share]))
    const expected = new Map(
      shares.map((write) => {
        const limit = region.limit(Number(/}(\d+)/.exec(write.id)?.[1]))
        return [write.id, this.#twin.writeShare(write, limit, region.time.us)] as const
      }),
    )
    const [outcomes] = await Promise.all([
      region.daemon.writeShares(shares),
      ...steps.map(({ compared }) => compared),
    ])
    expect(outcomes).toEqual(expected)
  }

  async #edit(): Promise<void> {
    this.#specs = this.#specs.map((spec) =>
      this.#random.below(2) === 0 ? spec : changed(this.#random, spec),
    )
    const recovering = this.#random.below(6) === 0
    await region.write(this.#specs, recovering)
    this.#twin.boot = { ...this.#twin.boot, recovering }
  }

  /** A daemon begins a new boot over what Redis has kept: shares are gone, levels begin at zero. */
  async #restart(): Promise<void> {
    await region.restartDaemon()
    this.#incarnation += this.#random.below(2)
    await region.boot(this.#incarnation)
    this.#twin.begin({ startUs: region.time.us + 1, recovering: false })
    await region.write(this.#specs)
    await region.daemon.serve()
  }

  /** Another daemon takes over what Redis has kept: nothing changes, and the one before can change nothing more. */
  async #newFence(): Promise<void> {
    const former = region.daemon
    region.daemon = await connectDaemon(region.server.url, region.time)
    await region.daemon.open()
    const late = this.#lanes.map((lane) => lane.someShare())
    await expect(former.writeShares(late)).rejects.toMatchObject({ code: 'QUOTA_FENCED' })
    await former.close()
  }

  async #wipe(levels: 'full' | 'empty'): Promise<void> {
    await region.begin(this.#specs, { levels, incarnation: ++this.#incarnation })
    this.#twin.wipe()
    const startUs = levels === 'full' ? 0 : region.time.us + 1
    this.#twin.begin({ startUs, recovering: false })
    for (const lane of this.#lanes) lane.forget()
  }

  /** Counts of tracked counters, as the daemon reads them. */
  async compareCounts(): Promise<void> {
    // A clock of before the boot would ask for a new one.
    await region.time.set(Math.max(region.time.us, this.#twin.boot.startUs))
    const { samples, missing } = await region.daemon.collect()
    expect(missing).toEqual([])
    const expected = [...this.#twin.counters]
      .filter(([, { share }]) => share !== null)
      .map(([id, { admitted, denied, returned }]) => ({ id, admitted, denied, returned }))
    const byId = (a: { id: string }, b: { id: string }): number => a.id.localeCompare(b.id)
    expect([...samples].sort(byId)).toEqual(expected.sort(byId))
  }
}

describe('the scripts on Redis', () => {
  it(`decide ${SEEDS * KEYS} random histories of all algorithms as the pure algorithms do`, {
    timeout: 300_000,
  }, async () => {
    for (let seed = FIRST_SEED; seed < FIRST_SEED + SEEDS; seed++) {
      const pair = new Pair(randomOf(seed))
      await pair.begin()
      try {
        for (let step = 0; step < STEPS; step++) await pair.step()
        await pair.compareCounts()
      } catch (err) {
        throw new Error(`SEED=${seed}`, { cause: err })
      }
    }
  })
})
