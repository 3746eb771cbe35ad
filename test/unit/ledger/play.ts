/**
 * A few regions with their real ledgers, played by commands that fast-check draws. Each command acts at once; in the
 * time that `pass` lets go by, daemons measure, tick, talk and write as in every simulation.
 */
import fc from 'fast-check'
import type { CounterId } from '../../../shared/core/descriptor.ts'
import { heldFrom } from '../../../shared/core/ledger/rows.ts'
import type { RegionRecord } from '../../../shared/core/ledger/types.ts'
import { POOL_UNITS, unitsOfOneToken } from '../../../shared/core/units.ts'
import { Violation } from '../../simulation/model/checks.ts'
import { FAIR, type Weather } from '../../simulation/model/network.ts'
import { aLimit, World } from '../../simulation/model/world.ts'
import type { Mutant } from '../../simulation/mutants.ts'

export const REGIONS = ['a', 'b', 'c'] as const
export type Region = (typeof REGIONS)[number]

export interface Setting {
  readonly seed: number
  /** The first two regions or all. */
  readonly regions: number
  readonly algorithm: 'token_bucket' | 'fixed_window'
  readonly capacity: number
  readonly windowMs: number
  readonly floorPercent: number
  readonly weights: readonly [number, number, number]
  /** Chance that a write's reply is lost. */
  readonly doubt: number
}

export const setting: fc.Arbitrary<Setting> = fc.record({
  seed: fc.nat({ max: 1_000_000 }),
  regions: fc.constantFrom(2, 3),
  algorithm: fc.constantFrom('token_bucket' as const, 'fixed_window' as const),
  capacity: fc.constantFrom(7, 100, 1_000),
  windowMs: fc.constantFrom(1_000, 5_000),
  floorPercent: fc.constantFrom(0, 2, 10),
  weights: fc.tuple(
    fc.integer({ min: 1, max: 9 }),
    fc.integer({ min: 0, max: 9 }),
    fc.nat({ max: 9 }),
  ),
  doubt: fc.constantFrom(0, 0, 0.01),
})

/** Offered tokens of each region as a part of the limit, in the calm after the commands. */
export type Calm = readonly [number, number, number]
export const calm: fc.Arbitrary<Calm> = fc.tuple(
  ...([0, 1, 2].map(() => fc.constantFrom(0.05, 0.3, 1.2)) as [
    fc.Arbitrary<number>,
    fc.Arbitrary<number>,
    fc.Arbitrary<number>,
  ]),
)

/** The promise that each check of the simulation holds, by its number in ARCHITECTURE.md. */
const INVARIANTS: Readonly<Record<string, string>> = {
  pair: 'INV-1',
  pool: 'INV-2',
  negative: 'INV-3',
  floor: 'INV-3',
  base: 'INV-4',
  bucket: 'INV-5',
  window: 'INV-6',
  fence: 'INV-7',
  views: 'INV-11',
}

/** How often each limit may be reset. */
const RESETS = 1

/**
 * A region that is removed and comes back takes a lender's wait, an epoch or two, the plane told again and a recovery:
 * twice as long as all of them.
 */
const SETTLED_AFTER_S = 120

/** Agreement and rest for so many seconds one after the other are no chance. */
const REST_S = 3

/** Of the pool, what may go to and fro in a second under constant demand. */
const CHURN = POOL_UNITS / 50

/** Until what one region lacks and another has too much of is lent. */
const WARM_MS = 4_000

const LIMIT = 1

export class Play {
  readonly world: World
  readonly regions: readonly Region[]
  readonly #demand = new Map<string, number>()

  constructor(given: Setting, mutant?: Mutant) {
    const { seed, algorithm, capacity, floorPercent, doubt } = given
    this.regions = REGIONS.slice(0, given.regions)
    const weights = Object.fromEntries(
      this.regions.map((region, place) => [region, given.weights[place] ?? 0]),
    )
    this.world = new World({
      seed,
      regions: this.regions,
      limits: [
        aLimit({ id: LIMIT, algorithm, capacity, windowMs: given.windowMs, floorPercent, weights }),
      ],
      resets: RESETS,
      weather: FAIR,
      demand: (id, region) => {
        const limit = this.world.limitOf(id)
        return ((this.#demand.get(region) ?? 0) * limit.capacity * 1_000) / limit.windowMs
      },
      trafficMs: 200,
      measureMs: 250,
      doubt,
      ...(mutant === undefined ? {} : { mutant }),
    })
    // Something is lent from the first.
    this.swing('b')
    this.do(() => this.pass(WARM_MS))
  }

  /** Runs `act` and holds every promise to account; what breaks is named by its invariant. */
  do(act: (play: Play) => void): void {
    try {
      act(this)
      this.world.check()
    } catch (err) {
      if (!(err instanceof Violation)) throw err
      throw new Error(`${INVARIANTS[err.rule] ?? err.rule} is broken: ${err.message}`, {
        cause: err,
      })
    }
  }

  pass(ms: number): void {
    this.world.run(ms)
  }

  ask(region: Region, part: number): void {
    this.#demand.set(region, part)
  }

  /** One region is busy, the others ask for little. */
  swing(to: Region): void {
    for (const region of this.regions) this.ask(region, region === to ? 2 : 0.02)
  }

  weather(change: Partial<Weather>): void {
    this.world.network.weather = { ...FAIR, ...change }
  }

  /** Acts on a region whose daemon is there to be acted on. */
  ifUp(region: Region, act: () => void): void {
    if (this.regions.includes(region) && this.world.site(region).daemon.isUp) act()
  }

  resize(factor: number): void {
    this.world.resizeLimit(LIMIT, factor)
  }

  reset(): void {
    this.world.resetUsage(LIMIT)
  }

  split(weights: Readonly<Record<string, number>>): void {
    this.world.openEpoch(LIMIT, weights)
  }

  /** Base units of each region, one of them changed. */
  splitBut(region: Region, units: number): void {
    const limit = this.world.planner.plane.limits.get(LIMIT)
    this.split({ ...limit?.base, [region]: units })
  }

  /**
   * Links are whole again and demand is constant: within a while all regions know the same loans, every unit is in
   * use, no epoch is open, and units stop moving.
   */
  settle(demand: Calm): void {
    this.world.network.heal()
    this.weather({})
    for (const [place, region] of this.regions.entries()) this.ask(region, demand[place] ?? 0)
    let restedSeconds = 0
    let unrest: string | null = null
    for (let second = 0; second < SETTLED_AFTER_S && restedSeconds < REST_S; second++) {
      const before = this.#shares()
      this.pass(1_000)
      unrest = this.#discord() ?? this.#movedSince(before)
      restedSeconds = unrest === null ? restedSeconds + 1 : 0
    }
    if (restedSeconds < REST_S) throw new Violation('views', unrest ?? 'no rest')
  }

  #movedSince(before: readonly number[]): string | null {
    const shares = this.#shares()
    const moved = shares.reduce((sum, units, at) => sum + Math.abs(units - (before[at] ?? 0)), 0)
    return moved > this.#churnMax() ? `${moved} units moved in a second` : null
  }

  /** A token that comes now and then is no constant demand: a small limit may move it to and fro. */
  #churnMax(): number {
    const capacity = this.world.planner.plane.limits.get(LIMIT)?.capacity ?? 1
    return Math.max(CHURN, 4 * unitsOfOneToken(capacity))
  }

  #shares(): readonly number[] {
    return this.#enforced().flatMap((id) =>
      this.world.sites.map(({ region }) => this.world.share(id, region)),
    )
  }

  #enforced(): readonly CounterId[] {
    return this.world.ids.filter((id) => this.world.sites.every(({ store }) => store.enforces(id)))
  }

  /** In what the regions differ; null when in nothing. */
  #discord(): string | null {
    if (!this.world.planner.isComplete) return 'an epoch is open'
    for (const id of this.#enforced()) {
      const shares = this.world.sites.map(({ region }) => this.world.share(id, region))
      const sum = shares.reduce((all, share) => all + share, 0)
      if (sum !== POOL_UNITS) return `${sum} units of ${id} are in use`
      const loans = this.#loanDiscord(id)
      if (loans !== null) return loans
    }
    return this.#demandDiscord()
  }

  /** A loan of which lender and borrower count differently. */
  #loanDiscord(id: CounterId): string | null {
    for (const { region: lender, daemon: lending } of this.world.sites) {
      for (const { region, daemon } of this.world.sites) {
        const loan = daemon.state.keys.get(id)?.row.borrowed[lender]
        const held = heldFrom(loan, daemon.state.pairs.get(lender), daemon.nowMs())
        const lent = lending.state.keys.get(id)?.row.lent[region]
        const out = lent === undefined ? 0 : lent.lent - lent.returned
        if (held !== out) return `${region} holds ${held} of ${lender}, which counts ${out}`
      }
    }
    return null
  }

  /** Demand that two regions know differently of a third, or that one has not heard of. */
  #demandDiscord(): string | null {
    for (const { region } of this.world.sites) {
      const heard = this.world.sites
        .filter((other) => other.region !== region)
        .map(({ daemon }) => daemon.state.heard.get(region)?.record)
      const views = heard.map((record) => JSON.stringify(demandOf(record)))
      if (new Set(views).size > 1 || views.includes('null')) return `of ${region}: ${views.join()}`
    }
    return null
  }
}

function demandOf(record: RegionRecord | undefined) {
  if (record === undefined) return null
  return record.rows.map(({ id, demand }) => [id, demand])
}
