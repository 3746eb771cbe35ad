/** One region of the product: clocks, Redis, one or more daemons, and all that can happen to them. */
import type { CounterId } from '../../../../shared/core/descriptor.ts'
import { DRIFT } from '../../../../shared/core/ledger/constants.ts'
import type { RegionRecord, UsageRow } from '../../../../shared/core/ledger/types.ts'
import { usageWindowMs } from '../../../../shared/core/usage-window.ts'
import type { RegionFaults } from '../strategies/strategy.ts'
import { EPOCH_US } from '../world/epoch.ts'
import { HostClock } from '../world/host-clock.ts'
import type { Prng } from '../world/prng.ts'
import { regionName, type World } from '../world/world.ts'
import { Daemon } from './daemon.ts'
import type { IncarnationReply } from './daemon-memory.ts'
import type { RegionMutant } from './mutant.ts'
import { Process, type StoreLink } from './process.ts'
import { cloneImage, emptyImage, type Plane, type RedisImage } from './redis-image.ts'
import { type CheckOutcome, RegionRedis } from './region-redis.ts'

/** A world has one limit; its keys are the tenants that it is counted for. */
export const LIMIT_ID = 1

/** What a region needs of the rest of the plane. */
export interface Outside {
  publish(record: RegionRecord): void
  askPlane(question: number): void
  askIncarnation(request: string, atLeast: number): void
  audit(ids: readonly CounterId[] | null): void
  usage(): readonly UsageRow[]
}

/** Wall clocks are disciplined: each such interval their rate is set so that the error stays in bounds. */
const DISCIPLINE_US = 8e6

export class LoansRegion implements RegionFaults {
  readonly redis: RegionRedis
  readonly daemons: readonly Daemon[]
  readonly #world: World
  readonly #index: number
  readonly #clock: HostClock
  /** Wall clock error that faults have caused on purpose, which discipline does not undo. */
  #steppedUs = 0
  #usage = { window: 0, admitted: 0, denied: 0 }

  constructor(world: World, index: number, outside: Outside, mutant: RegionMutant) {
    this.#world = world
    this.#index = index
    const prng = world.prng.fork(`region ${index}`)
    this.#clock = new HostClock(1, EPOCH_US - world.startUs)
    this.#discipline(prng.fork('clock'))
    this.redis = new RegionRedis(world.queue, this.#clock, mutant)
    const surroundings = {
      ...outside,
      onStoreChange: (ids: readonly CounterId[] | null): void => {
        outside.audit(ids)
        for (const id of ids ?? []) world.tellShareWritten(index, this.#expiryOf(id))
      },
      wallMs: (): number => this.#clock.readUs(world.queue.nowUs) / 1_000,
    }
    this.daemons = Array.from({ length: world.spec.daemons ?? 1 }, (_, number) => {
      const host = prng.fork(`daemon ${number}`)
      const clock = new HostClock(1 + host.between(-1, 1) * world.clocks.drift, host.next() * 1e9)
      const process = new Process({ queue: world.queue, redis: this.redis, clock, prng: host })
      const holder = `${regionName(index)}.${number}`
      return new Daemon({
        region: regionName(index),
        holder,
        process,
        redis: this.redis,
        surroundings,
      })
    })
  }

  check(id: CounterId, cost: number): CheckOutcome {
    const outcome = this.redis.check(LIMIT_ID, id, cost)
    if (outcome !== 'unavailable') this.#count(outcome, cost)
    return outcome
  }

  hearRecord(record: RegionRecord): void {
    for (const daemon of this.daemons) {
      if (daemon.process.isAlive) daemon.memory.putRecord(record)
      daemon.process.wake()
    }
  }

  hearPlane(plane: Plane): void {
    for (const daemon of this.daemons) {
      daemon.memory.putPlane(plane)
      daemon.process.wake()
    }
  }

  hearIncarnation(reply: IncarnationReply): void {
    for (const daemon of this.daemons) {
      daemon.memory.arrivedIncarnation = reply
      daemon.process.wake()
    }
  }

  /** The running window's usage, as a record carries it. */
  usage(): readonly UsageRow[] {
    const { window, admitted, denied } = this.#usage
    if (admitted === 0 && denied === 0) return []
    return [{ limitId: LIMIT_ID, usageEpoch: 0, window, admitted, denied, returned: 0 }]
  }

  startDaemon(): void {
    for (const daemon of this.daemons) if (!daemon.process.isAlive) daemon.start()
  }

  killDaemon(): void {
    for (const daemon of this.daemons) daemon.process.kill()
  }

  stopDaemon(): void {
    for (const daemon of this.daemons) daemon.process.stop()
  }

  resumeDaemon(): void {
    for (const daemon of this.daemons) daemon.process.resume()
  }

  setStoreLink(link: StoreLink): void {
    for (const daemon of this.daemons) daemon.process.storeLink = link
  }

  crash(): void {
    if (this.redis.isUp) this.redis.crash()
  }

  wipe(downMs: number): void {
    this.#restart(emptyImage(), downMs)
  }

  restartRedis({ lagMs, downMs }: { readonly lagMs: number; readonly downMs: number }): void {
    const image = cloneImage(this.redis.image)
    this.#world.queue.after(lagMs * 1_000, () => this.#restart(image, downMs))
  }

  failOver({
    lagMs,
    keepsScripts,
  }: {
    readonly lagMs: number
    readonly keepsScripts: boolean
  }): void {
    const image = cloneImage(this.redis.image)
    this.#world.queue.after(lagMs * 1_000, () => {
      if (this.redis.isUp) this.redis.failOver(image, keepsScripts)
    })
  }

  #restart(image: RedisImage, downMs: number): void {
    if (!this.redis.isUp) return
    this.redis.crash()
    this.#world.queue.after(downMs * 1_000, () => this.redis.restart(image))
  }

  /** A clock that is set forward refills buckets for time that never was; that much is stated as allowed. */
  stepClock(byMs: number): void {
    const { limit, keys = 1 } = this.#world.spec
    this.#steppedUs += byMs * 1_000
    if (byMs > 0) {
      for (let key = 0; key < keys; key++) {
        const part = this.#world.strategy.shareOf(this.#index)
        const refilled = (limit.capacity * byMs) / limit.windowMs
        this.#world.meter.reference.allow(key, part * Math.min(limit.burst, refilled))
      }
    }
    this.#clock.stepBy(this.#world.queue.nowUs, byMs * 1_000)
  }

  #discipline(prng: Prng): void {
    const { queue, clocks } = this.#world
    const wanderUs = clocks.skewMs * 1_000
    const correct = (): void => {
      const nowUs = queue.nowUs
      const truth = nowUs + EPOCH_US - this.#world.startUs + this.#steppedUs
      const aimUs = truth + DISCIPLINE_US + prng.between(-1, 1) * wanderUs
      const wanted = (aimUs - this.#clock.readUs(nowUs)) / DISCIPLINE_US - 1
      // The assumption of the protocol bounds the rate, whatever the discipline wants.
      this.#clock.runAt(nowUs, 1 + Math.max(-DRIFT, Math.min(DRIFT, wanted)))
      queue.after(DISCIPLINE_US, correct)
    }
    this.#clock.stepBy(queue.nowUs, prng.between(-1, 1) * wanderUs)
    correct()
  }

  #count(outcome: CheckOutcome, cost: number): void {
    const windowUs = usageWindowMs(this.#world.spec.limit.windowMs) * 1_000
    const window = Math.floor(this.redis.nowUs() / windowUs)
    if (window !== this.#usage.window) this.#usage = { window, admitted: 0, denied: 0 }
    if (outcome === 'admitted') this.#usage.admitted += cost
    else this.#usage.denied += cost
  }

  #expiryOf(id: CounterId): number {
    const counter = this.redis.find(id, this.redis.nowUs())
    return counter?.share?.expUs ?? 0
  }
}
