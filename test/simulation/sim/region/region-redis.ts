/**
 * One region's Redis: what its enforcers and its daemon see of it, and how it fails.
 *
 * It decides with the twins of the Lua scripts and refuses what they refuse. What a restart or a failover keeps
 * is an image of an earlier instant; its scripts are gone with every new replication id, unless a server that was
 * demoted comes back with its script cache, which the replication id in the script's text must then refuse.
 */

import type { Share } from '../../../../shared/core/algorithms/algorithm.ts'
import { unitsAt } from '../../../../shared/core/algorithms/algorithm.ts'
import { assert } from '../../../../shared/core/assert.ts'
import type { CounterId } from '../../../../shared/core/descriptor.ts'
import type { RegionLimit } from '../../../../shared/core/policy.ts'
import type { EventQueue } from '../world/event-queue.ts'
import type { HostClock } from '../world/host-clock.ts'
import { type Counter, createCounter, engineOf } from './counters.ts'
import { FAITHFUL_REGION, type RegionMutant } from './mutant.ts'
import { cloneImage, emptyImage, type RedisImage } from './redis-image.ts'

export type CheckOutcome = 'admitted' | 'denied' | 'unavailable'

export class RegionRedis {
  readonly queue: EventQueue
  readonly clock: HostClock
  readonly mutant: RegionMutant
  image: RedisImage = emptyImage()
  /** Changes whenever connections break. */
  connection = 0
  #isUp = true
  #replicationId = 0
  /** Replication id that the loaded scripts have in their text; null while none are loaded. */
  #scriptsOf: number | null = null

  constructor(queue: EventQueue, clock: HostClock, mutant = FAITHFUL_REGION) {
    this.queue = queue
    this.clock = clock
    this.mutant = mutant
  }

  /** Whether a call over a connection arrives; null opens one. */
  answers(connection: number | null): boolean {
    const isOpen = connection === null || connection === this.connection
    return this.#isUp && (isOpen || this.mutant.reconnects === true)
  }

  get isUp(): boolean {
    return this.#isUp
  }

  nowUs(): number {
    return Math.floor(this.clock.readUs(this.queue.nowUs))
  }

  get isServing(): boolean {
    if (!this.#isUp || !this.image.meta.serving) return false
    return this.mutant.enforcersLoad === true || this.#hasOwnScripts
  }

  /** What `open` calls scriptsLoaded. */
  get hasScripts(): boolean {
    return this.#hasOwnScripts && this.image.meta.serving
  }

  get #hasOwnScripts(): boolean {
    if (this.mutant.ignoresReplicationId === true) return this.#scriptsOf !== null
    return this.#scriptsOf === this.#replicationId
  }

  loadScripts(): void {
    this.#scriptsOf = this.#replicationId
    this.image.meta = { ...this.image.meta, serving: true }
  }

  /** Decides one check of one counter under the newest policies, as an enforcer does that re-reads on STALE. */
  check(limitId: number, id: CounterId, cost: number): CheckOutcome {
    const limit = this.image.limits.get(limitId)
    if (!this.isServing || limit === undefined) return 'unavailable'
    const nowUs = this.nowUs()
    const known = this.find(id, nowUs)
    const counter = known ?? createCounter()
    const share = this.shareOf(counter)
    const boot = this.image.meta
    const { allowed, isLow } = engineOf(limit).decide(counter, { limit, share, boot, nowUs }, cost)
    if (isLow && share === null) this.image.hot.add(id)
    // A denial of a counter that was never used stores nothing.
    if (known === undefined && allowed) this.image.counters.set(id, counter)
    return allowed ? 'admitted' : 'denied'
  }

  /** The counter, unless its time has come. */
  find(id: CounterId, nowUs: number): Counter | undefined {
    const counter = this.image.counters.get(id)
    if (counter === undefined || nowUs < counter.expiresAtUs) return counter
    this.image.counters.delete(id)
    return undefined
  }

  /** A tail of another incarnation is void, as the scripts take it. */
  shareOf(counter: Counter): Share | null {
    if (counter.share === null) return null
    if (counter.incarnation === this.image.meta.incarnation) return counter.share
    counter.share = null
    return null
  }

  /** Units that enforcers may use of a counter now; 0 while none is decided here. */
  unitsOf(limitId: number, id: CounterId): number {
    const limit = this.image.limits.get(limitId)
    if (!this.isServing || limit === undefined) return 0
    return this.unitsUnder(limit, id)
  }

  unitsUnder(limit: RegionLimit, id: CounterId): number {
    const nowUs = this.nowUs()
    const counter = this.find(id, nowUs)
    const share = counter === undefined ? null : this.shareOf(counter)
    return unitsAt({ limit, share, boot: this.image.meta, nowUs }, limit, nowUs)
  }

  crash(): void {
    this.#isUp = false
    this.connection++
    this.#scriptsOf = null
  }

  /** Comes back with what its file holds: an earlier image, or nothing. */
  restart(image: RedisImage): void {
    assert(!this.#isUp, 'only a server that is down starts')
    this.#isUp = true
    this.#becomeServer(image)
  }

  /** A replica with an earlier image takes over. `keepsScripts`: it has a script cache of its own. */
  failOver(image: RedisImage, keepsScripts: boolean): void {
    this.connection++
    const scripts = this.#scriptsOf
    this.#becomeServer(image)
    if (keepsScripts) this.#scriptsOf = scripts
  }

  #becomeServer(image: RedisImage): void {
    this.#replicationId++
    this.#scriptsOf = null
    this.image = cloneImage(image)
  }
}
