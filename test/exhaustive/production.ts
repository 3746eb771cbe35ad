/**
 * A region run by the product's own ledger over a store that answers at once: what the model is compared with.
 *
 * Writes cannot be in doubt here and nothing happens between the parts of a step; the simulation of the product
 * covers those. Units are the product's, time is milliseconds.
 */
import { unreachable } from '../../shared/core/assert.ts'
import { LENDER_WAIT_MS, LOAN_TTL_MS } from '../../shared/core/ledger/constants.ts'
import { buildRecord } from '../../shared/core/ledger/record.ts'
import { createLedger, type LedgerState, STRANGER } from '../../shared/core/ledger/state.ts'
import { step } from '../../shared/core/ledger/step.ts'
import type {
  Continuity,
  LedgerEffect,
  LedgerEvent,
  LedgerLimit,
  LedgerRow,
  PairState,
  RegionRecord,
  ShareOutcome,
  ShareWrite,
} from '../../shared/core/ledger/types.ts'

export const LOAN_TIMES = { ttl: LOAN_TTL_MS, lenderWait: LENDER_WAIT_MS } as const

/** A token bucket of 1,000 tokens a second with these base parts. */
export function aLimit(base: Readonly<Record<string, number>>, floorPercent: number): LedgerLimit {
  return {
    id: 1,
    algorithm: 'token_bucket',
    capacity: 1_000,
    windowMs: 1_000,
    burst: 1_000,
    usageEpoch: 0,
    epoch: 0,
    base,
    previousBase: null,
    floorPercent,
  }
}

/** A share as the store enforces it. */
interface StoredShare {
  readonly home: number
  readonly borrowed: number
  readonly expiresAtMs: number | null
  readonly row: LedgerRow
}

export class ProductionRegion {
  state: LedgerState
  /** True once the ledger asked for its next record. */
  wantsToPublish = false
  readonly #members: readonly string[]
  readonly #keyId: string
  #limit: LedgerLimit
  #revision = 1
  #incarnation = 0
  #fence = 0
  #seq = 1
  #share: StoredShare | null = null
  #home = 0
  readonly #pairs = new Map<string, PairState>()

  constructor(
    name: string,
    { members, limit, keyId }: { members: readonly string[]; limit: LedgerLimit; keyId: string },
  ) {
    this.state = createLedger(name)
    this.#members = members
    this.#limit = limit
    this.#keyId = keyId
  }

  /** Begins, or begins again: `kept` finds what the store holds, `lost` nothing. */
  start(continuity: Extract<Continuity, 'first' | 'kept' | 'lost'>, nowMs: number): void {
    if (continuity !== 'kept') {
      this.#incarnation += 1
      this.#share = null
      this.#pairs.clear()
    }
    this.#fence += 1
    this.#seq += 1_000
    this.state = createLedger(this.state.self)
    this.wantsToPublish = false
    this.act(
      {
        kind: 'started',
        continuity,
        incarnation: this.#incarnation,
        fence: this.#fence,
        firstSeq: this.#seq,
        pairs: Object.fromEntries(this.#pairs),
        rows: this.#share === null ? [] : [this.#share.row],
        storeOffsetMs: 0,
        bootedAtStoreMs: 0,
      },
      nowMs,
    )
    this.usePolicy(this.#limit, this.#revision, nowMs)
  }

  usePolicy(limit: LedgerLimit, policyRevision: number, nowMs: number): void {
    this.#limit = limit
    this.#revision = policyRevision
    const limits = new Map([[limit.id, limit]])
    this.act(
      {
        kind: 'limits',
        policyRevision,
        limits,
        members: this.#members,
        formerMembers: [],
        leastIncarnations: {},
      },
      nowMs,
    )
  }

  /** One event with all that follows from it. */
  act(event: LedgerEvent, nowMs: number): void {
    const { state, effects } = step(this.state, event, nowMs)
    this.state = state
    for (const effect of effects) this.#carryOut(effect, nowMs)
  }

  #carryOut(effect: LedgerEffect, nowMs: number): void {
    switch (effect.kind) {
      case 'write-pairs':
        for (const [peer, pair] of Object.entries(effect.pairs)) this.#pairs.set(peer, pair)
        break
      case 'write-homes':
        this.#home = effect.homes.get(this.#limit.id) ?? 0
        break
      case 'write-shares':
        this.#writeShares(effect.writes)
        this.act({ kind: 'shares-written', outcomes: allWritten(effect.writes) }, nowMs)
        break
      case 'publish':
        this.wantsToPublish = true
        break
      default:
        unreachable(effect)
    }
  }

  #writeShares(writes: readonly ShareWrite[]): void {
    for (const { row, home, borrowed, expiresAtMs } of writes) {
      this.#share = row === null ? null : { row, home, borrowed, expiresAtMs }
    }
  }

  publish(nowMs: number): RegionRecord {
    const { state, record } = buildRecord(this.state, [], nowMs)
    this.state = state
    this.#seq = state.nextSeq
    this.wantsToPublish = false
    return record
  }

  /** What the region's enforcers may use at `nowMs`. */
  share(nowMs: number): number {
    if (this.#share === null) return this.#home
    const { home, borrowed, expiresAtMs } = this.#share
    return home + (expiresAtMs !== null && nowMs < expiresAtMs ? borrowed : 0)
  }

  /** Units lent to a peer and not known to be back. */
  outstandingTo(peer: string): number {
    const loan = this.#row()?.lent[peer]
    return loan === undefined ? 0 : loan.lent - loan.returned
  }

  /** This region's figure of what it gave back to a lender, with what tells its lives apart. */
  givenBackTo(lender: string): { readonly life: string; readonly units: number } {
    const loan = this.#row()?.borrowed[lender]
    if (loan === undefined) return { life: 'none', units: 0 }
    return { life: `${loan.incarnation} ${loan.term} ${loan.born}`, units: loan.returned }
  }

  pairWith(peer: string): typeof STRANGER {
    return this.state.pairs.get(peer) ?? STRANGER
  }

  #row(): LedgerRow | undefined {
    return this.state.keys.get(this.#keyId)?.row
  }
}

/** What all regions together may use, each by its own clock. */
export function sumOfShares(
  regions: readonly ProductionRegion[],
  nowMs: (index: number) => number,
): number {
  return regions.reduce((sum, region, index) => sum + region.share(nowMs(index)), 0)
}

function allWritten(writes: readonly ShareWrite[]): ReadonlyMap<string, ShareOutcome> {
  return new Map(writes.map(({ id }) => [id, 'written']))
}
