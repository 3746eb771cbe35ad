import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { RegionLimitSpec, StockWindow } from '../../../shared/core/policy.ts'
import {
  addAllotment,
  creditStock,
  type SettledStock,
  type StockState,
  settleStock,
  storeStock,
  takeStock,
} from '../../../shared/core/stock/counter.ts'
import { GROUP_KEYS } from '../../../shared/redis/keys.ts'
import { decodeMeta } from '../../../shared/redis/layout.ts'
import { randomOf } from '../../support/random.ts'
import { aLimit, NOON_US, RedisRegion } from '../../support/redis-region.ts'

/** Counters of long windows on a real Redis, beside the pure ones of shared/core/stock. */

const DAY_MS = 86_400_000
const NOON_MS = NOON_US / 1_000
const DAY_STARTS_MS = NOON_MS - DAY_MS / 2
const DAY_ENDS_MS = NOON_MS + DAY_MS / 2

const SEEDS = process.env['SEED'] === undefined ? 25 : 1
const FIRST_SEED = Number(process.env['SEED'] ?? 1)
const STEPS = 50

let region: RedisRegion
beforeAll(async () => {
  region = await RedisRegion.start()
})
afterAll(() => region.stop())

const today = (floor: number): StockWindow => ({
  startMs: DAY_STARTS_MS,
  endMs: DAY_ENDS_MS,
  floor,
})
const tomorrow = (floor: number): StockWindow => ({
  startMs: DAY_ENDS_MS,
  endMs: DAY_ENDS_MS + DAY_MS,
  floor,
})
const daily = (stock: readonly StockWindow[], capacity = 100): RegionLimitSpec =>
  aLimit({ algorithm: 'fixed_window', capacity, windowMs: DAY_MS, stock })

async function begin(stock: readonly StockWindow[], capacity = 100): Promise<void> {
  await region.time.set(NOON_US)
  await region.begin([daily(stock, capacity)])
}

const add = (from: number, to: number, low: number | null = 0, startMs = DAY_STARTS_MS) =>
  region.daemon.addStock([{ id: region.counter(), startMs, from, to, low }])

/** Counters that the daemon is told of at its next reading. */
const noticed = async () => (await region.daemon.collect()).noticed

describe('a counter of a long window', () => {
  it('admits its floor without anybody, and what it was allotted on top', async () => {
    await begin([today(5)])
    expect(await region.admitted(8)).toBe(5)
    await add(0, 10)
    expect(await region.admitted(20)).toBe(10)
  })

  it('has nothing to spend in a window that admin has not opened', async () => {
    await begin([])
    expect(await region.check()).toMatchObject({
      allowed: false,
      remaining: 0,
      retryAfterMs: 1_000,
    })
  })

  it('names itself to the daemon when it runs low, and when it denies', async () => {
    await begin([today(10)])
    await region.admitted(7)
    expect(await noticed()).toEqual([])
    await region.check()
    expect(await noticed()).toEqual([region.counter()])
    await add(0, 20, 4)
    expect(await region.admitted(17)).toBe(17)
    expect(await noticed()).toEqual([])
    await region.check()
    expect(await noticed()).toEqual([region.counter()])
  })

  it('says when more may be had: after an answer of admin, or in the next window when nothing is left', async () => {
    await begin([today(1)])
    await region.check()
    expect(await region.check()).toMatchObject({ allowed: false, retryAfterMs: 1_000 })
    await add(0, 0, null)
    expect(await region.check()).toMatchObject({ allowed: false, retryAfterMs: DAY_MS / 2 })
  })

  // B023, B113, B116
  it('keeps its count to the last millisecond of its window, and begins with nothing in the next', async () => {
    await begin([today(2), tomorrow(3)])
    expect(await region.admitted(5)).toBe(2)
    await region.time.set((DAY_ENDS_MS - 1) * 1_000)
    expect(await region.check()).toMatchObject({ allowed: false, resetMs: 1 })
    await region.time.set(DAY_ENDS_MS * 1_000)
    expect(await region.check()).toMatchObject({ allowed: true, remaining: 2, resetMs: DAY_MS })
  })

  it('takes nothing of an answer that is for a window before or after its own', async () => {
    await begin([today(0), tomorrow(0)])
    await add(0, 10, 0, DAY_ENDS_MS)
    expect(await region.admitted(1)).toBe(0)
    await region.time.set(DAY_ENDS_MS * 1_000)
    await add(0, 10)
    expect(await region.admitted(1)).toBe(0)
  })

  it('counts all that it ever had as spent after a boot, and goes on with what it is given then', async () => {
    await begin([today(5)])
    await add(0, 20)
    await region.admitted(3)
    await region.boot(2)
    await region.write([daily([today(5)])])
    await region.daemon.serve()
    expect(await region.admitted(30)).toBe(0)
    await add(20, 27)
    expect(await region.admitted(30)).toBe(7)
  })

  it('is fresh again in the window after a boot', async () => {
    await begin([today(5), tomorrow(5)])
    await region.boot(2)
    await region.write([daily([today(5), tomorrow(5)])])
    await region.daemon.serve()
    await region.time.set(DAY_ENDS_MS * 1_000)
    expect(await region.admitted(9)).toBe(5)
  })

  it('is refused an answer by a daemon that was fenced', async () => {
    await begin([today(0)])
    const late = region.daemon
    await region.restartDaemon()
    await region.daemon.open()
    await expect(
      late.addStock([{ id: region.counter(), startMs: DAY_STARTS_MS, from: 0, to: 9, low: 0 }]),
    ).rejects.toMatchObject({ code: expect.stringMatching(/FENCED|UNAVAILABLE/) })
    expect(await region.admitted(1)).toBe(0)
  })

  // B080, B082
  it('leaves no key without an expiry', async () => {
    await begin([today(5)])
    await region.admitted(3)
    await add(0, 20)
    await region.admitted(3)
    const left = await region.redis.pttl(`c:${region.counter()}`)
    expect(left).toBeGreaterThan(DAY_MS / 2)
    expect(left).toBeLessThan(DAY_MS)
  })
})

/** One counter on Redis and its pure twin. */
class Pair {
  readonly #random: ReturnType<typeof randomOf>
  #windows: readonly StockWindow[] = []
  #state: StockState | null = null
  #boot = { number: 0, startUs: 0, recovering: false }
  readonly #admitted: { readonly cost: number; readonly atUs: number }[] = []

  constructor(random: ReturnType<typeof randomOf>) {
    this.#random = random
  }

  async begin(): Promise<void> {
    const floor = this.#random.below(12)
    this.#windows = [today(floor), tomorrow(this.#random.below(12))]
    await region.time.set(NOON_US)
    await begin(this.#windows, 60)
    await this.#readBoot()
  }

  step(): Promise<void> {
    return this.#random.pick([
      () => this.check(),
      () => this.check(),
      () => this.check(),
      () => this.add(),
      () => this.giveBack(),
      () => region.time.advanceMs(this.#random.pick([0, 0.05, 1, 3e6, 3e7, -0.05, -50])),
      () => (this.#random.below(4) === 0 ? this.reboot() : this.check()),
    ])()
  }

  async check(): Promise<void> {
    const cost = this.#random.pick([0, 1, 1, 2, 5, 61])
    const decision = await region.check(cost)
    const settled = this.#settle()
    const isAllowed = cost <= 60 && Math.max(cost, 1) <= settled.remaining
    const after = isAllowed && cost > 0 ? takeStock(settled, cost) : settled
    expect([decision.allowed, decision.remaining]).toEqual([isAllowed, after.remaining])
    if (!isAllowed || cost === 0) return
    this.#state = storeStock(after)
    this.#admitted.push({ cost, atUs: region.time.us })
  }

  async add(): Promise<void> {
    const startMs = this.#random.pick([DAY_STARTS_MS, DAY_STARTS_MS, DAY_ENDS_MS])
    const from = this.#random.below(10)
    const to = from + this.#random.below(10)
    const low = this.#random.pick([null, 0, 2])
    await add(from, to, low, startMs)
    const after = addAllotment(this.#settle(), { startUs: startMs * 1_000, from, to, low })
    if (after !== null) this.#state = storeStock(after)
  }

  async giveBack(): Promise<void> {
    const past = this.#admitted.pop()
    if (past === undefined) return
    await region.checks.giveBack(region.target(past.cost), region.version, past.atUs)
    const credit = { ...past, boot: this.#boot }
    const after = creditStock(this.#settle(), this.#state, credit)
    if (after !== null) this.#state = storeStock(after)
  }

  async reboot(): Promise<void> {
    await region.boot(this.#boot.number + 1)
    await region.write([daily(this.#windows, 60)])
    await region.daemon.serve()
    await this.#readBoot()
  }

  #settle(): SettledStock {
    const windows = this.#windows.map(({ startMs, endMs, floor }) => ({
      startUs: startMs * 1_000,
      endUs: endMs * 1_000,
      floor,
    }))
    return settleStock(this.#state, { windows, boot: this.#boot, nowUs: region.time.us })
  }

  async #readBoot(): Promise<void> {
    const key = GROUP_KEYS[region.target(0).group]?.meta ?? ''
    const meta = decodeMeta(await region.redis.getBuffer(key))
    this.#boot = { number: meta?.boot ?? 0, startUs: meta?.startUs ?? 0, recovering: false }
  }
}

describe('the script of long windows on Redis', () => {
  it(`decides ${SEEDS * STEPS} random steps as the pure counter does`, {
    timeout: 60_000,
  }, async () => {
    for (let seed = FIRST_SEED; seed < FIRST_SEED + SEEDS; seed++) {
      const pair = new Pair(randomOf(seed))
      await pair.begin()
      try {
        for (let step = 0; step < STEPS; step++) await pair.step()
      } catch (err) {
        throw new Error(`SEED=${seed}`, { cause: err })
      }
    }
  })
})
