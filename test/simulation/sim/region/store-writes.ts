/** The daemon's side of a region's Redis, as `RegionStore` promises it: one call is one atomic script. */
import type { Share } from '../../../../shared/core/algorithms/algorithm.ts'
import { stampLimit } from '../../../../shared/core/algorithms/stamp-limit.ts'
import { parseCounterId } from '../../../../shared/core/counter-id.ts'
import type { CounterId } from '../../../../shared/core/descriptor.ts'
import type {
  LedgerRow,
  PairState,
  Sample,
  ShareOutcome,
  ShareWrite,
} from '../../../../shared/core/ledger/types.ts'
import type { RegionId, RegionLimit } from '../../../../shared/core/policy.ts'
import { PLAIN_LIMIT } from '../../../support/region-policy.ts'
import { createCounter, engineOf } from './counters.ts'
import { EMPTY_PLANE, type Plane } from './redis-image.ts'
import type { RegionRedis } from './region-redis.ts'

/** How long an idle bucket is kept that fills within half a second to a second. */
const UNPINNED_LEAST_US = 500_000

/** The store failed, or has another fence: the session is over. */
export class StoreFailure extends Error {}

export interface Opened {
  readonly fence: number
  readonly scriptsLoaded: boolean
  readonly incarnation: number
  readonly recovering: boolean
  readonly seqReserved: number
  readonly plane: Plane
  readonly pairs: Readonly<Record<RegionId, PairState>>
  readonly rows: readonly LedgerRow[]
  readonly storeUs: number
  readonly startUs: number
}

export interface Reading {
  readonly storeUs: number
  readonly samples: readonly Sample[]
  readonly noticed: readonly CounterId[]
  readonly missing: readonly CounterId[]
}

export function claimLeadership(redis: RegionRedis, holder: string, ttlMs: number): boolean {
  const nowUs = redis.nowUs()
  const { leader } = redis.image
  if (leader !== null && leader.holder !== holder && nowUs < leader.untilUs) return false
  redis.image.leader = { holder, untilUs: nowUs + ttlMs * 1_000 }
  return true
}

/** Raises the fence first, then reads. */
export function open(redis: RegionRedis): Opened {
  const { image } = redis
  image.meta = { ...image.meta, fence: image.meta.fence + 1 }
  return {
    fence: image.meta.fence,
    scriptsLoaded: redis.hasScripts,
    incarnation: image.meta.incarnation,
    recovering: image.meta.recovering,
    seqReserved: image.seqReserved,
    plane: image.plane,
    pairs: Object.fromEntries(image.pairs),
    rows: [...image.rows.values()],
    storeUs: redis.nowUs(),
    startUs: image.meta.startUs,
  }
}

export function requireFence(redis: RegionRedis, fence: number): void {
  if (redis.image.meta.fence !== fence) throw new StoreFailure('fenced')
}

/** Starts a new boot and stops serving; gives the boot instant. */
export function begin(
  redis: RegionRedis,
  boot: {
    readonly incarnation: number
    readonly levels: 'empty' | 'full'
    readonly recovering: boolean
  },
): number {
  const goesOn = boot.levels === 'full' || redis.mutant.levelsGoOn === true
  const startUs = goesOn ? redis.image.meta.startUs : redis.nowUs()
  const { incarnation, recovering } = boot
  redis.image.meta = { ...redis.image.meta, incarnation, recovering, startUs, serving: false }
  // What an older incarnation wrote is void; a region that begins anew has nobody's rows.
  if (boot.recovering || boot.levels === 'full') {
    redis.image.rows.clear()
    redis.image.pairs.clear()
    redis.image.plane = EMPTY_PLANE
  }
  if (redis.mutant.loadsFirst === true) redis.loadScripts()
  return startUs
}

export function collect(redis: RegionRedis): Reading {
  const { image } = redis
  const nowUs = redis.nowUs()
  const samples: Sample[] = []
  const missing: CounterId[] = []
  for (const id of image.rows.keys()) {
    const counter = redis.find(id, nowUs)
    if (counter === undefined || redis.shareOf(counter) === null) missing.push(id)
    else samples.push({ id, admitted: counter.admitted, denied: counter.denied, returned: 0 })
  }
  const noticed = [...image.hot]
  image.hot.clear()
  return { storeUs: nowUs, samples, noticed, missing }
}

export function writePairs(redis: RegionRedis, pairs: Readonly<Record<RegionId, PairState>>): void {
  for (const [peer, { lend, borrow }] of Object.entries(pairs)) {
    redis.image.pairs.set(peer, { lend, borrow })
  }
}

/** `offsetMs`: Redis TIME minus the daemon's clock, as the daemon last measured it. */
export function writeShares(
  redis: RegionRedis,
  writes: readonly ShareWrite[],
  offsetMs: number,
): ReadonlyMap<CounterId, ShareOutcome> {
  return new Map(writes.map((write) => [write.id, writeShare(redis, write, offsetMs)]))
}

function writeShare(redis: RegionRedis, write: ShareWrite, offsetMs: number): ShareOutcome {
  const { image } = redis
  const limit = image.limits.get(parseCounterId(write.id)?.limitId ?? -1)
  if (limit === undefined) {
    image.rows.delete(write.id)
    return 'written'
  }
  const nowUs = redis.nowUs()
  const expUs = write.expiresAtMs === null ? 0 : Math.floor((write.expiresAtMs + offsetMs) * 1_000)
  const home = write.row === null ? limit.home : write.home
  const share: Share = { home, borrowed: write.row === null ? 0 : write.borrowed, expUs }
  return resize(redis, limit, { write, share, nowUs }) ? 'written' : 'occupied'
}

function resize(
  redis: RegionRedis,
  limit: RegionLimit,
  change: { readonly write: ShareWrite; readonly share: Share; readonly nowUs: number },
): boolean {
  const { image } = redis
  const { write, share, nowUs } = change
  const known = redis.find(write.id, nowUs)
  const counter = known ?? createCounter()
  const old = redis.shareOf(counter)
  const wasPinned = counter.pinned
  counter.pinned = write.pinned && write.row !== null
  const circumstances = { limit, share: old, boot: image.meta, nowUs }
  if (!engineOf(limit).resize(counter, circumstances, share, write.shrinks)) {
    counter.pinned = wasPinned
    return false
  }
  if (old === null) {
    counter.admitted = 0
    counter.denied = 0
  }
  counter.incarnation = image.meta.incarnation
  if (write.row === null) counter.share = null
  image.counters.set(write.id, counter)
  if (redis.mutant.unpins === true && counter.pinned) {
    counter.pinned = false
    counter.expiresAtUs = nowUs + UNPINNED_LEAST_US + (nowUs % UNPINNED_LEAST_US)
  }
  if (write.row === null) image.rows.delete(write.id)
  else image.rows.set(write.id, write.row)
  return true
}

export function writePolicies(
  redis: RegionRedis,
  change: {
    readonly plane: Plane
    readonly homes: ReadonlyMap<number, number>
    readonly recovering: boolean
  },
): void {
  const { image } = redis
  const { plane, homes, recovering } = change
  image.version++
  image.meta = { ...image.meta, recovering }
  image.plane = plane
  const { startUs } = image.meta
  const stamp = { version: image.version, nowUs: redis.nowUs(), boot: { startUs, recovering } }
  const limits = [...plane.limits.values()].map((limit) => {
    const home = homes.get(limit.id) ?? 0
    const { id, algorithm, capacity, windowMs, burst, usageEpoch, calendar = null } = limit
    const numbers = { capacity, windowMs, burst, usageEpoch, home, calendar }
    const spec = { ...PLAIN_LIMIT, ...numbers, id, name: '', algorithm }
    return stampLimit(image.limits.get(id), spec, stamp)
  })
  image.limits = new Map(limits.map((limit) => [limit.id, limit]))
}
