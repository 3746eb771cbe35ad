/** The product: shares, directed loans, one ledger a region. Everything but the outside is its own code. */

import { assert } from '../../../../shared/core/assert.ts'
import { splitBase } from '../../../../shared/core/base-split.ts'
import { counterId } from '../../../../shared/core/counter-id.ts'
import type { CounterId } from '../../../../shared/core/descriptor.ts'
import { pooledTokens } from '../../../../shared/core/enforced.ts'
import type { LedgerLimit, RegionRecord, UsageRow } from '../../../../shared/core/ledger/types.ts'
import { hasBurst } from '../../../../shared/core/policy.ts'
import { POOL_UNITS } from '../../../../shared/core/units.ts'
import { Admin } from '../region/admin.ts'
import { LIMIT_ID, LoansRegion } from '../region/loans-region.ts'
import { FAITHFUL_REGION } from '../region/mutant.ts'
import { EMPTY_PLANE } from '../region/redis-image.ts'
import { RegionWire } from '../region/region-wire.ts'
import { regionName, type World } from '../world/world.ts'
import type { Attempt, Outcome, Strategy } from './strategy.ts'

/** Admin says where it is this often; a change is told at once. */
const REVISION_MS = 1_000

export class Loans implements Strategy {
  readonly name = 'loans'
  readonly faults: readonly LoansRegion[]
  readonly admin: Admin
  readonly #world: World
  readonly #ids: readonly CounterId[]
  /** By place in the network: the regions, then admin. */
  readonly #wires: ReadonlyMap<number, RegionWire>

  constructor(world: World, mutant = FAITHFUL_REGION) {
    this.#world = world
    const keys = world.spec.keys ?? 1
    this.#ids = Array.from({ length: keys }, (_, key) =>
      counterId({ group: 0, limitId: LIMIT_ID, usageEpoch: 0, name: `tenant=k${key}` }),
    )
    const members = world.regions.filter((_, index) => world.spec.absent?.includes(index) !== true)
    const limits = new Map([[LIMIT_ID, limitOf(world)]])
    this.admin = new Admin({ ...EMPTY_PLANE, revision: 1, members, limits }, () =>
      this.#tellPlane(),
    )
    const places = [...world.regions.keys(), world.adminPlace]
    this.#wires = new Map(places.map((place) => [place, new RegionWire()]))
    this.faults = world.regions.map(
      (_, index) => new LoansRegion(world, index, this.#outside(index), mutant),
    )
  }

  start(): void {
    this.faults.forEach((region, index) => {
      if (this.#world.spec.absent?.includes(index) !== true) region.startDaemon()
    })
    const tell = (): void => {
      this.#tellPlane()
      this.#world.queue.after(REVISION_MS * 1_000, tell)
    }
    tell()
  }

  check({ region, key, cost }: Attempt): Outcome {
    const id = this.#ids[key]
    const faults = this.faults[region]
    if (id === undefined || faults === undefined) return 'unavailable'
    return faults.check(id, cost)
  }

  isReachable(region: number): boolean {
    return this.faults[region]?.redis.isUp === true
  }

  shareOf(region: number): number {
    const [id] = this.#ids
    if (id === undefined) return 0
    return (this.faults[region]?.redis.unitsOf(LIMIT_ID, id) ?? 0) / POOL_UNITS
  }

  labelUs(region: number): number {
    return this.faults[region]?.redis.nowUs() ?? 0
  }

  #outside(index: number) {
    const world = this.#world
    const name = regionName(index)
    const ask = (answer: () => void): void => {
      world.network.send(index, world.adminPlace, () => {
        world.network.send(world.adminPlace, index, answer)
      })
    }
    return {
      publish: (record: RegionRecord): void => this.#publish(index, record),
      askPlane: (answers: number): void =>
        ask(() => this.faults[index]?.hearPlane({ ...this.admin.plane, answers })),
      askIncarnation: (request: string, atLeast: number): void =>
        ask(() =>
          this.faults[index]?.hearIncarnation(this.admin.incarnation(name, request, atLeast)),
        ),
      audit: (ids: readonly CounterId[] | null): void => this.#audit(ids),
      usage: (): readonly UsageRow[] => this.faults[index]?.usage() ?? [],
    }
  }

  #publish(from: number, record: RegionRecord): void {
    const world = this.#world
    const { update, sizes } = this.#wire(from).send(record, world.nowMs())
    for (const size of sizes) world.countMessage(size)
    const carry = (to: number, hear: (record: RegionRecord) => void): void =>
      world.network.send(from, to, () => {
        const heard = this.#wire(to).hear(update, world.nowMs())
        if (heard === 'ask') world.network.send(to, from, () => this.#wire(from).hearQuestion())
        else if (heard !== null) hear(heard)
      })
    this.faults.forEach((region, to) => {
      if (to !== from) carry(to, (heard) => region.hearRecord(heard))
    })
    carry(world.adminPlace, (heard) => this.admin.hear(heard))
  }

  #wire(place: number): RegionWire {
    const wire = this.#wires.get(place)
    assert(wire !== undefined, 'every place has its end of the bus')
    return wire
  }

  #tellPlane(): void {
    const { plane } = this.admin
    const numbers = this.#numbers()
    const weights = this.#world.regions.map((region) => (numbers.base[region] ?? 0) / POOL_UNITS)
    this.#world.meter.setIdeal(this.#ideal(numbers), weights, Math.max(0, this.#world.nowMs()))
    this.faults.forEach((region, to) => {
      this.#world.network.send(this.#world.adminPlace, to, () => region.hearPlane(plane))
    })
  }

  /** What a clairvoyant limiter holds: of a relaxed limit, the limit itself. */
  #ideal(numbers: LedgerLimit): LedgerLimit {
    const { mode, capacity, burst } = this.#world.spec.limit
    return mode === 'relaxed' ? { ...numbers, capacity, burst } : numbers
  }

  #numbers(): LedgerLimit {
    return this.admin.plane.limits.get(LIMIT_ID) ?? limitOf(this.#world)
  }

  /**
   * INV-2 on what enforcers would really use, at each instant at which it may have grown: after each write to any
   * region's Redis. `ids` null: the written limits concern every key.
   */
  #audit(ids: readonly CounterId[] | null): void {
    for (const id of ids ?? this.#auditedIds()) {
      let sum = 0
      for (const region of this.faults) sum += region.redis.unitsOf(LIMIT_ID, id)
      if (sum > POOL_UNITS) this.#world.violate(`shares of ${id} sum to ${sum}`)
    }
    if (ids === null) this.#followNumbers()
  }

  /** All keys with a counter anywhere, and one without. */
  #auditedIds(): ReadonlySet<CounterId> {
    const tracked = this.faults.flatMap((region) => [...region.redis.image.rows.keys()])
    return new Set([...tracked, ...this.#ids.slice(0, 1)])
  }

  /** The judge allows the largest numbers that any region enforces: a change takes time to travel. */
  #followNumbers(): void {
    const numbers = this.#numbers()
    let { capacity, burst } = { capacity: 0, burst: 0 }
    for (const region of this.faults) {
      const limit = region.redis.image.limits.get(LIMIT_ID)
      capacity = Math.max(capacity, limit?.capacity ?? 0)
      burst = Math.max(burst, limit?.burst ?? 0)
    }
    if (capacity === 0) return
    this.#world.meter.reference.setNumbers({ ...numbers, capacity, burst }, this.#world.queue.nowUs)
  }
}

function limitOf(world: World): LedgerLimit {
  const { limit } = world.spec
  const weights = Object.fromEntries(
    world.regions.map((region, index) => [region, world.weights[index] ?? 0]),
  )
  const { mode = 'strict', relaxedPercent = 0 } = limit
  const pooled = (tokens: number): number => pooledTokens({ mode, relaxedPercent }, tokens)
  return {
    id: LIMIT_ID,
    algorithm: limit.algorithm,
    capacity: pooled(limit.capacity),
    windowMs: limit.windowMs,
    calendar: limit.calendar ?? null,
    burst: pooled(limit.burst),
    usageEpoch: 0,
    epoch: 1,
    base: splitBase(weights, hasBurst(limit.algorithm) ? limit.burst : limit.capacity),
    previousBase: null,
    floorPercent: limit.floorPercent ?? 2,
    objective: limit.objective ?? 'max-min',
  }
}
