/**
 * Several regions with their real ledgers in virtual time: links that delay, lose, repeat, reorder and break one
 * way; clocks that drift; daemons and stores that die and come back; base epochs. All decided by one seed.
 */
import { splitBase } from '../../../shared/core/base-split.ts'
import { counterId } from '../../../shared/core/counter-id.ts'
import type { CounterId } from '../../../shared/core/descriptor.ts'
import { CLOCK_SKEW_MAX_MS, DRIFT, TICK_MS } from '../../../shared/core/ledger/constants.ts'
import type { LedgerLimit, RegionRecord } from '../../../shared/core/ledger/types.ts'
import { FAITHFUL, type Mutant } from '../mutants.ts'
import {
  checkBases,
  checkFences,
  checkFloors,
  checkPairs,
  checkPool,
  Reference,
  type Site,
} from './checks.ts'
import { type Clock, DaemonModel } from './daemon.ts'
import { Network, type Weather } from './network.ts'
import { Planner } from './planner.ts'
import { Random } from './random.ts'
import { Scheduler } from './scheduler.ts'
import { StoreModel } from './store.ts'

export interface WorldOptions {
  readonly seed: number
  readonly regions: readonly string[]
  readonly limits: readonly LedgerLimit[]
  /** Keys of each limit: they share the terms of a pair. One when left out. */
  readonly keys?: number
  /** How often each limit's usage may be reset. */
  readonly resets?: number
  readonly weather: Weather
  /** Offered tokens a second of a key in a region at an instant. */
  readonly demand: (id: CounterId, region: string, nowMs: number) => number
  readonly trafficMs: number
  readonly measureMs: number
  /** Chance that a write's reply is lost. */
  readonly doubt?: number
  readonly hasDrift?: boolean
  /** Whether a region hears of a change of the plane at an instant. */
  readonly isTold?: (region: string, nowMs: number) => boolean
  readonly mutant?: Mutant
}

/** How often the planner goes on with removals. */
const ADVANCE_MS = 500

/** Longer than the real daemons take, so that regions run under different policies for a while. */
const ANNOUNCE_AGAIN_MS = 10_000

/** The first key of a limit, or another. */
export function keyOf(limit: LedgerLimit, place = 0): CounterId {
  const name = place === 0 ? 'k=v' : `k=v${place}`
  return counterId({ group: 0, limitId: limit.id, usageEpoch: limit.usageEpoch, name })
}

/** All keys of a limit, those that resets bring included. */
function keysOf(limit: LedgerLimit, keys: number, resets: number): readonly CounterId[] {
  return Array.from({ length: (resets + 1) * keys }, (_, place) => {
    const usageEpoch = limit.usageEpoch + Math.floor(place / keys)
    return keyOf({ ...limit, usageEpoch }, place % keys)
  })
}

/** How a daemon is reached that led a region and does not know that another does. */
export function formerlyOf(region: string): string {
  return `${region} before`
}

export function aLimit(
  change: Partial<LedgerLimit> & { readonly weights?: Record<string, number> },
): LedgerLimit {
  const { weights = { a: 60, b: 40 }, ...numbers } = change
  const capacity = numbers.capacity ?? 1_000
  return {
    id: 1,
    algorithm: 'token_bucket',
    capacity,
    windowMs: 1_000,
    burst: capacity,
    usageEpoch: 0,
    epoch: 0,
    base: splitBase(weights, capacity),
    previousBase: null,
    floorPercent: 2,
    ...numbers,
  }
}

export class World {
  readonly scheduler = new Scheduler()
  readonly random: Random
  readonly network: Network
  readonly planner: Planner
  readonly sites: readonly Site[]
  readonly ids: readonly CounterId[]
  readonly admitted = new Map<string, number>()
  readonly denied = new Map<string, number>()
  readonly #options: WorldOptions
  readonly #references: ReadonlyMap<CounterId, Reference>
  readonly #owed = new Map<string, number>()
  readonly #limitIds: ReadonlyMap<CounterId, number>

  constructor(options: WorldOptions) {
    this.#options = options
    this.random = new Random(options.seed)
    const { keys: places = 1, resets = 0 } = options
    const keys = options.limits.flatMap((limit) =>
      keysOf(limit, places, resets).map((id) => ({ limit, id })),
    )
    this.#limitIds = new Map(keys.map(({ limit, id }) => [id, limit.id]))
    this.ids = [...this.#limitIds.keys()]
    this.network = new Network(this.scheduler, this.random, options.weather)
    const isPatient = options.mutant?.certifiesAtOnce !== true
    this.planner = new Planner(options.regions, options.limits, isPatient)
    this.#references = new Map(keys.map(({ limit, id }) => [id, new Reference(limit)]))
    this.sites = options.regions.map((region) => this.#build(region))
    for (const site of this.sites) {
      this.network.join(site.region, (record) => site.daemon.hear(record))
      site.daemon.start('first')
      this.#repeat(TICK_MS, () => site.daemon.tick())
      this.#repeat(options.measureMs, () => site.daemon.measure())
      this.#repeat(options.trafficMs, () => this.#traffic(site))
      // Whoever missed an announcement catches up.
      this.#repeat(ANNOUNCE_AGAIN_MS, () => this.#tell(site))
    }
  }

  /** Runs on for `forMs`, holding every promise to account after each step. */
  run(forMs: number): void {
    this.scheduler.runUntil(this.scheduler.nowMs + forMs, () => this.check())
  }

  check(): void {
    checkFences(this.sites)
    checkPairs(this.sites)
    checkBases(this.sites, this.planner.plane.limits.keys())
    checkPool(this.sites, this.ids)
    // What was lent before a limit was lowered may be of the floor that it has since.
    const steady = this.ids.filter((id) => !this.planner.resized.has(this.limitOf(id).id))
    checkFloors(this.sites, steady, (id) => this.limitOf(id))
    if (this.planner.resized.size > 0) this.#followLimits()
  }

  limitOf(id: CounterId): LedgerLimit {
    const limit = this.planner.plane.limits.get(this.#limitIds.get(id) ?? -1)
    if (limit === undefined) throw new Error(`no limit for ${id}`)
    return limit
  }

  site(region: string): Site {
    const site = this.sites.find((one) => one.region === region)
    if (site === undefined) throw new Error(`no region ${region}`)
    return site
  }

  share(id: CounterId, region: string): number {
    const { store, daemon } = this.site(region)
    return store.effective(id, daemon.storeMs())
  }

  /** The daemon dies; the store goes on. It begins again after a while, knowing only what the store holds. */
  crashDaemon(region: string, downMs: number): void {
    const site = this.site(region)
    const { store } = site
    site.daemon.crash()
    this.scheduler.after(downMs, () => {
      const { daemon } = site
      if (store.isFencedOff) return
      // A recovery that was not over, or a store not yet written again, leaves nothing to rely on.
      if (store.isServing && !store.isRecovering) daemon.start('kept', this.#aClock())
      else this.#beginLost(region)
    })
  }

  /**
   * The leader loses its lease, and a standby with a clock of its own takes over over the same store. The one that
   * led has stopped by then or, where that rule is broken, goes on by the way `formerlyOf` names.
   */
  takeOver(region: string): void {
    const site = this.site(region)
    // What was not serving, or recovers, is not kept: that is a crash, not a takeover.
    if (!site.store.isServing || site.store.isRecovering) return
    const former = site.daemon
    const store = new StoreModel(this.ids, (id) => this.limitOf(id))
    if (this.#options.mutant?.outlivesLease === true) {
      const via = formerlyOf(region)
      this.network.join(via, (record) => former.hear(record))
      former.outlive({ store, publish: (record) => this.network.send(record, via) })
      this.#repeat(TICK_MS, () => former.tick())
    } else former.crash()
    site.daemon = this.#aDaemon(site.region, site.store, former.skewMs)
    site.daemon.start('kept')
  }

  /** The store restarts; its daemon goes on and writes what it knows. */
  restartStore(region: string): void {
    const { daemon, store } = this.site(region)
    store.wipe(daemon.storeMs())
    daemon.start('held')
  }

  /** Both die: the region has lost its memory. */
  loseRegion(region: string, downMs: number): void {
    const { daemon, store } = this.site(region)
    daemon.crash()
    store.wipe(daemon.storeMs())
    this.scheduler.after(downMs, () => {
      if (!store.isFencedOff) this.#beginLost(region)
    })
  }

  #beginLost(region: string): void {
    const { daemon, store } = this.site(region)
    store.wipe(daemon.storeMs())
    daemon.start('lost', this.#aClock())
  }

  /** A new base split for one limit, if the last is complete; told to each region at its own time. */
  openEpoch(limitId: number, weights: Record<string, number>): void {
    if (this.planner.openEpoch(limitId, weights)) this.#announce()
  }

  /** A smaller capacity for one limit, once; each region applies it when it hears of it. */
  lowerLimit(limitId: number, part: number): void {
    if (this.planner.lower(limitId, part)) this.#announce()
  }

  /** Another capacity for one limit; each region applies it when it hears of it. */
  resizeLimit(limitId: number, factor: number): void {
    if (this.planner.resize(limitId, factor)) this.#announce()
  }

  /** Counters of one limit that begin anew, as often as the world has keys for. */
  resetUsage(limitId: number): void {
    const epoch = this.planner.plane.limits.get(limitId)?.usageEpoch ?? 0
    if (epoch >= (this.#options.resets ?? 0)) return
    if (this.planner.resetUsage(limitId)) this.#announce()
  }

  /** The references allow what the largest limit does that some region still enforces. */
  #followLimits(): void {
    for (const [id, reference] of this.#references) {
      const limitId = this.#limitIds.get(id) ?? -1
      const enforced = this.sites
        .filter(({ store }) => store.isServing && !store.isFencedOff)
        .map(({ store }) => store.plane?.limits.get(limitId) ?? this.limitOf(id))
      const [largest] = enforced.sort((one, other) => other.capacity - one.capacity)
      if (largest !== undefined) reference.follow(largest, this.scheduler.nowMs)
    }
  }

  #build(region: string): Site {
    const store = new StoreModel(this.ids, (id) => this.limitOf(id))
    const skewMs = this.random.between(-CLOCK_SKEW_MAX_MS / 2, CLOCK_SKEW_MAX_MS / 2)
    return { region, daemon: this.#aDaemon(region, store, skewMs), store }
  }

  #aDaemon(region: string, store: StoreModel, skewMs: number): DaemonModel {
    const { random, scheduler, planner, network } = this
    const { mutant = FAITHFUL, doubt = 0 } = this.#options
    const publish = (record: RegionRecord): void => {
      if (planner.hear(record)) this.#announce()
      network.send(record)
    }
    const isStale = mutant.readsStalePlane === true
    const readPlane = () => (isStale ? planner.stalePlane : planner.plane)
    const setting = { region, random, scheduler, store, mutant, doubt, publish, readPlane }
    return new DaemonModel(setting, this.#aClock(), skewMs)
  }

  #aClock(): Clock {
    const drift = this.#options.hasDrift === false ? 0 : DRIFT
    return { rate: 1 + this.random.between(-drift, drift), offsetMs: this.random.between(0, 1e7) }
  }

  #announce(): void {
    for (const site of this.sites) {
      const delayMs = this.random.chance(0.1)
        ? this.random.between(0, 8_000)
        : this.random.between(0, 300)
      const { plane } = this.planner
      this.scheduler.after(delayMs, () => this.#tell(site, plane))
    }
  }

  #tell({ daemon, region }: Site, plane = this.planner.plane): void {
    const isTold = this.#options.isTold?.(region, this.scheduler.nowMs) ?? true
    if (isTold) daemon.usePlane(plane)
  }

  /**
   * The region is lost and fenced off: it admits nothing, and an operator certifies that. `backAfterMs` later it is
   * registered again, with a new incarnation and nothing else.
   */
  removeRegion(region: string, backAfterMs: number): void {
    const { daemon, store } = this.site(region)
    if (this.planner.isLeaving(region) || !this.planner.plane.members.includes(region)) return
    daemon.crash()
    store.fenceOff()
    const leastIncarnation = store.incarnation + 1
    this.planner.certify(region, { atMs: this.scheduler.nowMs, leastIncarnation })
    this.#advance(region)
    this.scheduler.after(backAfterMs, () => this.#bringBack(region))
  }

  /** Lets the planner go on with a removal until it is complete. */
  #advance(region: string): void {
    if (this.planner.advance(this.scheduler.nowMs)) this.#announce()
    if (this.planner.isLeaving(region)) {
      this.scheduler.after(ADVANCE_MS, () => this.#advance(region))
    }
  }

  /** With nothing but its name, or, where that rule is broken, as it was. */
  #bringBack(region: string): void {
    const { daemon, store } = this.site(region)
    if (this.planner.plane.members.includes(region)) {
      this.scheduler.after(ADVANCE_MS, () => this.#bringBack(region))
      return
    }
    this.planner.admit(region)
    this.#announce()
    if (this.#options.mutant?.keepsRemovedState === true) {
      store.endFence()
      daemon.start('kept', this.#aClock())
      return
    }
    store.endFence()
    store.incarnation = Math.max(
      store.incarnation,
      this.planner.plane.leastIncarnations[region] ?? 0,
    )
    this.#beginLost(region)
  }

  #repeat(everyMs: number, run: () => void): void {
    const again = (): void => {
      run()
      this.scheduler.after(everyMs * this.random.between(0.95, 1.05), again)
    }
    this.scheduler.after(this.random.between(0, everyMs), again)
  }

  #traffic({ region, store, daemon }: Site): void {
    const { trafficMs, demand } = this.#options
    for (const id of this.ids) {
      const wanted = (demand(id, region, this.scheduler.nowMs) * trafficMs) / 1_000
      const owed = wanted + (this.#owed.get(`${region} ${id}`) ?? 0)
      const attempts = Math.floor(owed)
      this.#owed.set(`${region} ${id}`, owed - attempts)
      const storeMs = daemon.storeMs()
      const admitted = store.attempt(id, attempts, storeMs)
      this.#count(this.admitted, region, admitted)
      this.#count(this.denied, region, attempts - admitted)
      if (admitted === 0) continue
      const window = Math.floor(storeMs / this.limitOf(id).windowMs)
      this.#references.get(id)?.admit(admitted, this.scheduler.nowMs, window)
    }
  }

  #count(counts: Map<string, number>, region: string, tokens: number): void {
    counts.set(region, (counts.get(region) ?? 0) + tokens)
  }
}
