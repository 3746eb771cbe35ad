/** Ledgers side by side, each with a store that answers at once; the test decides what is sent and delivered. */
import { splitBase } from '../../../shared/core/base-split.ts'
import { counterId } from '../../../shared/core/counter-id.ts'
import { buildRecord } from '../../../shared/core/ledger/record.ts'
import { createLedger, type LedgerState } from '../../../shared/core/ledger/state.ts'
import { step } from '../../../shared/core/ledger/step.ts'
import type {
  Continuity,
  LedgerEffect,
  LedgerEvent,
  LedgerLimit,
  LedgerRow,
  PairState,
  RegionRecord,
  ShareWrite,
} from '../../../shared/core/ledger/types.ts'

export const KEY = counterId({ group: 0, limitId: 1, usageEpoch: 0, name: 'tenant=acme' })

export function aLimit(change: Partial<LedgerLimit> = {}): LedgerLimit {
  return {
    id: 1,
    algorithm: 'token_bucket',
    capacity: 1_000,
    windowMs: 1_000,
    burst: 1_000,
    usageEpoch: 0,
    epoch: 0,
    base: splitBase({ a: 60, b: 40 }, 1_000),
    previousBase: null,
    floorPercent: 2,
    ...change,
  }
}

interface Site {
  state: LedgerState
  incarnation: number
  fence: number
  seq: number
  bootedAtMs: number
  readonly pairs: Map<string, PairState>
  readonly rows: Map<string, LedgerRow>
  homes: ReadonlyMap<number, number>
  /** Whether the store lets nothing be used, whatever is borrowed. */
  isRecovering: boolean
  readonly counts: Map<string, { admitted: number; denied: number }>
}

export class Bench {
  nowMs = 100_000
  /** Shrinks that the store refuses. */
  isOccupied = false
  formerMembers: readonly string[] = []
  leastIncarnations: Readonly<Record<string, number>> = {}
  readonly sites = new Map<string, Site>()
  readonly effects: LedgerEffect[] = []
  #limits: readonly LedgerLimit[]
  #revision = 1

  constructor(
    limits: readonly LedgerLimit[] = [aLimit()],
    regions: readonly string[] = ['a', 'b'],
  ) {
    this.#limits = limits
    for (const region of regions) {
      this.sites.set(region, {
        state: createLedger(region),
        incarnation: 0,
        fence: 0,
        seq: 0,
        bootedAtMs: 0,
        pairs: new Map(),
        rows: new Map(),
        homes: new Map(),
        isRecovering: false,
        counts: new Map(),
      })
    }
    for (const region of regions) this.start(region, 'first')
    // Twice, so that everybody knows that it is heard.
    for (let round = 0; round < 2; round++) this.exchange()
  }

  site(region: string): Site {
    const site = this.sites.get(region)
    if (site === undefined) throw new Error(`no region ${region}`)
    return site
  }

  state(region: string): LedgerState {
    return this.site(region).state
  }

  /** Begins again; all but `held` and a doubt (`kept` with its state) lose the memory. */
  start(region: string, continuity: Continuity, keepsMemory = continuity === 'held'): void {
    const site = this.site(region)
    if (!keepsMemory) site.state = createLedger(region)
    if (continuity === 'first' || continuity === 'lost') {
      site.incarnation += 1
      site.pairs.clear()
      site.rows.clear()
      this.#shares.delete(region)
    }
    if (continuity === 'lost') site.bootedAtMs = this.nowMs
    site.fence += 1
    site.seq += 1_000
    this.feed(region, {
      kind: 'started',
      continuity,
      incarnation: site.incarnation,
      fence: site.fence,
      firstSeq: site.seq,
      pairs: Object.fromEntries(site.pairs),
      rows: [...site.rows.values()],
      storeOffsetMs: 0,
      bootedAtStoreMs: site.bootedAtMs,
    })
    this.giveLimits(region)
  }

  setLimits(limits: readonly LedgerLimit[]): void {
    this.#limits = limits
    this.#revision += 1
  }

  giveLimits(region: string): void {
    this.feed(region, {
      kind: 'limits',
      policyRevision: this.#revision,
      limits: new Map(this.#limits.map((limit) => [limit.id, limit])),
      members: [...this.sites.keys()],
      formerMembers: this.formerMembers,
      leastIncarnations: this.leastIncarnations,
    })
  }

  /** One event and all that follows from it; what was asked of the daemon is kept in `effects`. */
  feed(region: string, event: LedgerEvent): readonly LedgerEffect[] {
    const site = this.site(region)
    const { state, effects } = step(site.state, event, this.nowMs)
    site.state = state
    this.effects.push(...effects)
    const followed = effects.flatMap((effect) => this.#carryOut(region, effect))
    return [...effects, ...followed]
  }

  tick(region: string): readonly LedgerEffect[] {
    return this.feed(region, { kind: 'tick' })
  }

  send(region: string): RegionRecord {
    const site = this.site(region)
    const { state, record } = buildRecord(site.state, [], this.nowMs)
    site.state = state
    site.seq = Math.max(site.seq, state.nextSeq)
    return record
  }

  hear(region: string, record: RegionRecord): readonly LedgerEffect[] {
    return this.feed(region, { kind: 'record', record })
  }

  /** Everybody ticks, sends and hears everybody. */
  exchange(): void {
    for (const region of this.sites.keys()) this.tick(region)
    for (const [from] of this.sites) {
      const record = this.send(from)
      for (const [to] of this.sites) if (to !== from) this.hear(to, record)
    }
  }

  /** Half a second of load: tokens a second wanted, and admitted of them. */
  load(region: string, wanted: number, admitted = wanted): void {
    const site = this.site(region)
    if (!site.state.keys.has(KEY)) {
      const none = { kind: 'measured', storeOffsetMs: 0, samples: [], missing: [] } as const
      this.feed(region, { ...none, noticed: [KEY] })
    }
    for (let part = 0; part < 2; part++) {
      this.nowMs += 250
      const count = site.counts.get(KEY) ?? { admitted: 0, denied: 0 }
      count.admitted += admitted / 4
      count.denied += (wanted - admitted) / 4
      site.counts.set(KEY, count)
      const samples = [{ id: KEY, ...count, returned: 0 }]
      this.feed(region, { kind: 'measured', storeOffsetMs: 0, samples, noticed: [], missing: [] })
    }
  }

  /** Region a idle and b short of units, until a has lent to b and b holds it. */
  lendToB(): void {
    this.load('a', 10)
    this.load('b', 900, 400)
    this.hear('a', this.send('b'))
    this.load('a', 10)
    this.exchange()
    this.exchange()
  }

  lent(lender: string, borrower: string): number {
    const loan = this.state(lender).keys.get(KEY)?.row.lent[borrower]
    return loan === undefined ? 0 : loan.lent - loan.returned
  }

  /** The last share of the key that a region's store got. */
  share(region: string): ShareWrite | undefined {
    return this.#shares.get(region)
  }
  readonly #shares = new Map<string, ShareWrite>()

  /** Units that the region's store lets be used now. */
  effective(region: string): number {
    const share = this.#shares.get(region)
    if (share === undefined || share.row === null) return this.site(region).homes.get(1) ?? 0
    const isLeased = share.expiresAtMs !== null && this.nowMs < share.expiresAtMs
    return share.home + (isLeased ? share.borrowed : 0)
  }

  /** Writes arrive at the store, but their reply does not reach the daemon. */
  arriveUnanswered(region: string, effects: readonly LedgerEffect[]): void {
    const site = this.site(region)
    for (const effect of effects) {
      if (effect.kind === 'write-shares') {
        for (const write of effect.writes) this.#write(region, write)
      } else if (effect.kind === 'write-pairs') {
        for (const [peer, pair] of Object.entries(effect.pairs)) site.pairs.set(peer, pair)
      }
    }
  }

  #carryOut(region: string, effect: LedgerEffect): readonly LedgerEffect[] {
    const site = this.site(region)
    switch (effect.kind) {
      case 'write-pairs':
        for (const [peer, pair] of Object.entries(effect.pairs)) site.pairs.set(peer, pair)
        return []
      case 'write-homes':
        site.homes = effect.homes
        site.isRecovering = effect.recovering
        return []
      case 'write-shares': {
        const outcomes = new Map(
          effect.writes.map((write) => [write.id, this.#write(region, write)]),
        )
        return this.feed(region, { kind: 'shares-written', outcomes })
      }
      default:
        return []
    }
  }

  #write(region: string, write: ShareWrite): 'written' | 'occupied' {
    if (write.shrinks && this.isOccupied) return 'occupied'
    const { rows, counts } = this.site(region)
    if (write.row === null) {
      rows.delete(write.id)
      counts.delete(write.id)
    } else rows.set(write.id, write.row)
    this.#shares.set(region, write)
    return 'written'
  }
}
