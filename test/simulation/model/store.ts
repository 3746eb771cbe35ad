/**
 * One region's Redis, as far as the ledger can tell: shares with ledger rows, pairs, home parts, and buckets and
 * windows that admit by them. It answers, restarts empty, or is gone; it never half-answers.
 */
import { parseCounterId } from '../../../shared/core/counter-id.ts'
import type { CounterId } from '../../../shared/core/descriptor.ts'
import { CLOCK_SKEW_MAX_MS } from '../../../shared/core/ledger/constants.ts'
import type {
  LedgerLimit,
  LedgerRow,
  Membership,
  PairState,
  ShareOutcome,
  ShareWrite,
} from '../../../shared/core/ledger/types.ts'
import { shareBurst, shareTokens } from '../../../shared/core/units.ts'

export interface Plane extends Membership {
  readonly revision: number
  readonly limits: ReadonlyMap<number, LedgerLimit>
}

interface StoredShare {
  readonly home: number
  readonly borrowed: number
  readonly expiresAtStoreMs: number
  readonly row: LedgerRow
}

/** What a key has admitted: a bucket's level, or counts by window. */
interface Level {
  tokens: number
  atMs: number
  readonly counts: Map<number, number>
}

interface Tally {
  admitted: number
  denied: number
}

export class StoreModel {
  isServing = false
  isFencedOff = false
  isRecovering = false
  incarnation = 0
  fence = 0
  seqReserved = 0
  bootedAtMs = 0
  plane: Plane | null = null
  homes: ReadonlyMap<number, number> = new Map()
  readonly pairs = new Map<string, PairState>()
  readonly shares = new Map<CounterId, StoredShare>()
  readonly tallies = new Map<CounterId, Tally>()
  readonly noticed = new Set<CounterId>()
  /** Writes of an older fence that were carried out, and those that were refused. */
  staleWrites = 0
  refusedWrites = 0
  readonly #levels = new Map<CounterId, Level>()
  readonly #ids: readonly CounterId[]
  readonly #usageEpochs: ReadonlyMap<CounterId, number>
  readonly #limitOf: (id: CounterId) => LedgerLimit

  constructor(ids: readonly CounterId[], limitOf: (id: CounterId) => LedgerLimit) {
    this.#limitOf = limitOf
    this.#ids = ids
    this.#usageEpochs = new Map(ids.map((id) => [id, parseCounterId(id)?.usageEpoch ?? 0]))
    this.wipe(0)
  }

  /** Its traffic is off; what it holds stays. */
  fenceOff(): void {
    this.isFencedOff = true
  }

  endFence(): void {
    this.isFencedOff = false
  }

  /** A Redis that restarted: nothing in it but, for levels, the instant. */
  wipe(storeMs: number): void {
    this.isServing = false
    this.pairs.clear()
    this.shares.clear()
    this.tallies.clear()
    this.noticed.clear()
    this.homes = new Map()
    this.bootedAtMs = storeMs
    for (const id of this.#ids)
      this.#levels.set(id, { tokens: 0, atMs: storeMs, counts: new Map() })
  }

  /** Units that enforcers may use of a key at this instant. */
  effective(id: CounterId, storeMs: number): number {
    if (!this.isServing || this.isFencedOff || this.isRecovering || !this.enforces(id)) return 0
    const part = this.homes.get(this.#limit(id).id)
    const share = this.shares.get(id)
    const home = share?.home ?? part ?? 0
    return home + (share !== undefined && storeMs < share.expiresAtStoreMs ? share.borrowed : 0)
  }

  /** What the region may use of a key without loans. */
  homePart(limitId: number): number {
    if (!this.isServing || this.isFencedOff || this.isRecovering) return 0
    return this.homes.get(limitId) ?? 0
  }

  /** False for counters of usage before a reset that this region knows of, and of one that it does not know of. */
  enforces(id: CounterId): boolean {
    return this.#limit(id).usageEpoch === this.#usageEpochs.get(id)
  }

  /** Whether a write under `fence` is carried out; it is refused when a later one was taken. */
  admitsWrite(fence: number, checksFence: boolean): boolean {
    if (fence >= this.fence) return true
    if (checksFence) this.refusedWrites += 1
    else this.staleWrites += 1
    return !checksFence
  }

  /** Admits what fits of `attempts` tokens and returns how many that were. */
  attempt(id: CounterId, attempts: number, storeMs: number): number {
    if (!this.isServing || this.isFencedOff || attempts === 0 || !this.enforces(id)) return 0
    const limit = this.#limit(id)
    const room =
      limit.algorithm === 'fixed_window'
        ? this.#windowRoom(id, limit, storeMs)
        : this.#bucketRoom(id, limit, storeMs)
    const admitted = Math.min(attempts, Math.max(0, Math.floor(room)))
    const level = this.#levelOf(id)
    level.tokens -= admitted
    const window = Math.floor(storeMs / limit.windowMs)
    level.counts.set(window, (level.counts.get(window) ?? 0) + admitted)
    this.#tally(id, admitted, attempts - admitted)
    return admitted
  }

  writeShare(write: ShareWrite, storeMs: number, toStoreMs: (ms: number) => number): ShareOutcome {
    const limit = this.#limit(write.id)
    this.settle(write.id, storeMs)
    if (write.shrinks && limit.algorithm === 'fixed_window') {
      const left = shareTokens(limit.capacity, write.home + write.borrowed)
      if (this.#occupancy(write.id, limit, storeMs) > left) return 'occupied'
    }
    if (write.row === null) {
      this.shares.delete(write.id)
      this.tallies.delete(write.id)
    } else {
      const expiresAtStoreMs =
        write.expiresAtMs === null ? Number.NEGATIVE_INFINITY : toStoreMs(write.expiresAtMs)
      const { home, borrowed, row } = write
      this.shares.set(write.id, { home, borrowed, expiresAtStoreMs, row })
      if (!this.tallies.has(write.id)) this.tallies.set(write.id, { admitted: 0, denied: 0 })
    }
    this.settle(write.id, storeMs)
    return 'written'
  }

  /** With the plane that they are of, whose numbers are in force from here on. */
  writeHomes(
    homes: ReadonlyMap<number, number>,
    { recovering, plane }: { readonly recovering: boolean; readonly plane: Plane | null },
    storeMs: number,
  ): void {
    for (const id of this.#levels.keys()) this.settle(id, storeMs)
    this.homes = homes
    this.plane = plane
    this.isRecovering = recovering
    for (const id of this.#levels.keys()) this.settle(id, storeMs)
  }

  /** Brings a bucket up to now under its present share, whose burst is all it keeps. */
  settle(id: CounterId, storeMs: number): void {
    const limit = this.#limit(id)
    if (limit.algorithm === 'token_bucket') this.#bucketRoom(id, limit, storeMs)
  }

  #bucketRoom(id: CounterId, limit: LedgerLimit, storeMs: number): number {
    const level = this.#levelOf(id)
    const expires = this.shares.get(id)?.expiresAtStoreMs ?? Number.NEGATIVE_INFINITY
    for (const atMs of [Math.min(storeMs, Math.max(expires, level.atMs)), storeMs]) {
      // Just before `atMs`: a borrowed part counts up to its expiry and not after.
      const units = this.effective(id, Math.max(level.atMs, atMs - 1e-6))
      const rate = (limit.capacity / limit.windowMs) * (units / 1_000_000)
      level.tokens = Math.min(
        shareBurst(limit.burst, units),
        level.tokens + rate * (atMs - level.atMs),
      )
      level.atMs = atMs
    }
    level.tokens = Math.min(level.tokens, shareBurst(limit.burst, this.effective(id, storeMs)))
    return level.tokens
  }

  #windowRoom(id: CounterId, limit: LedgerLimit, storeMs: number): number {
    const window = Math.floor(storeMs / limit.windowMs)
    if (window * limit.windowMs < this.bootedAtMs) return 0
    const count = this.#levelOf(id).counts.get(window) ?? 0
    return shareTokens(limit.capacity, this.effective(id, storeMs)) - count
  }

  #occupancy(id: CounterId, limit: LedgerLimit, storeMs: number): number {
    const window = Math.floor(storeMs / limit.windowMs)
    const isEarly = storeMs - window * limit.windowMs < 2 * CLOCK_SKEW_MAX_MS
    // Just after an edge the window before counts, too; what it admitted before the boot is not known.
    const first = isEarly ? window - 1 : window
    if (this.bootedAtMs > 0 && first * limit.windowMs < this.bootedAtMs) {
      return Number.POSITIVE_INFINITY
    }
    const { counts } = this.#levelOf(id)
    return Math.max(counts.get(window) ?? 0, counts.get(first) ?? 0)
  }

  /** As this region enforces it. */
  #limit(id: CounterId): LedgerLimit {
    const limit = this.#limitOf(id)
    return this.plane?.limits.get(limit.id) ?? limit
  }

  #levelOf(id: CounterId): Level {
    const level = this.#levels.get(id)
    if (level === undefined) throw new Error(`the simulation has no key ${id}`)
    return level
  }

  #tally(id: CounterId, admitted: number, denied: number): void {
    const tally = this.tallies.get(id)
    if (tally !== undefined) {
      tally.admitted += admitted
      tally.denied += denied
    } else if (denied > 0) this.noticed.add(id)
  }
}
