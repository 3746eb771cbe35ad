/** What must hold after every step of a simulation, and the reference limiters that admissions are held against. */
import { floorOf } from '../../../shared/core/base-split.ts'
import type { CounterId } from '../../../shared/core/descriptor.ts'
import { DRIFT } from '../../../shared/core/ledger/constants.ts'
import { limitOf } from '../../../shared/core/ledger/draft.ts'
import { heldFrom } from '../../../shared/core/ledger/rows.ts'
import type { LedgerLimit } from '../../../shared/core/ledger/types.ts'
import { POOL_UNITS } from '../../../shared/core/units.ts'
import type { DaemonModel } from './daemon.ts'
import type { StoreModel } from './store.ts'

/** A broken promise; `rule` names it. */
export class Violation extends Error {
  readonly rule: string

  constructor(rule: string, detail: string) {
    super(`${rule}: ${detail}`)
    this.rule = rule
  }
}

export interface Site {
  readonly region: string
  /** The one that leads: a takeover puts another in its place. */
  daemon: DaemonModel
  readonly store: StoreModel
}

/** anytime: what all regions may use of a key together never passes the pool. */
export function checkPool(sites: readonly Site[], ids: readonly CounterId[]): void {
  for (const id of ids) {
    const shares = sites.map((site) => site.store.effective(id, site.daemon.storeMs()))
    const sum = shares.reduce((all, share) => all + share, 0)
    if (sum > POOL_UNITS) throw new Violation('pool', `${id} ${sum} of ${shares.join(' + ')}`)
    if (shares.some((share) => share < 0)) throw new Violation('negative', `${id} ${shares.join()}`)
  }
}

/** anytime, open epochs included: the parts of all regions together never pass the pool. */
export function checkBases(sites: readonly Site[], limitIds: Iterable<number>): void {
  for (const limitId of limitIds) {
    const parts = sites.map(({ store }) => store.homePart(limitId))
    const sum = parts.reduce((all, part) => all + part, 0)
    if (sum > POOL_UNITS) throw new Violation('base', `${limitId} ${sum} of ${parts.join(' + ')}`)
  }
}

/** anytime: nothing that a store holds was written under an older fence than the store had. */
export function checkFences(sites: readonly Site[]): void {
  for (const { region, store } of sites) {
    if (store.staleWrites > 0) throw new Violation('fence', `${region} took a write of before`)
  }
}

/** anytime: what a borrower holds is at most what its lender has out to it. */
export function checkPairs(sites: readonly Site[]): void {
  for (const lender of sites) {
    for (const borrower of sites) {
      if (lender === borrower || !lender.daemon.isUp || !borrower.daemon.isUp) continue
      checkPair(lender, borrower)
    }
  }
}

function checkPair(lender: Site, borrower: Site): void {
  const { state } = borrower.daemon
  for (const [id, { row }] of state.keys) {
    const pair = state.pairs.get(lender.region)
    const held = heldFrom(row.borrowed[lender.region], pair, borrower.daemon.nowMs())
    // A lender that forgot its loans is on its floor until they are over.
    const isForgetful = lender.daemon.state.incarnation !== pair?.borrow.incarnation
    // Nobody enforces what a reset has ended, once the lender knows of it.
    if (held === 0 || isForgetful || limitOf(lender.daemon.state, id) === null) continue
    const loan = lender.daemon.state.keys.get(id)?.row.lent[borrower.region]
    const out = loan === undefined ? 0 : loan.lent - loan.returned
    if (held > out) {
      throw new Violation(
        'pair',
        `${borrower.region} holds ${held} of ${out} from ${lender.region}`,
      )
    }
  }
}

/** anytime, outside epochs and what amnesia leaves unusable: a region at rest has at least its floor. */
export function checkFloors(
  sites: readonly Site[],
  ids: readonly CounterId[],
  limits: (id: CounterId) => LedgerLimit,
): void {
  const steady = ids
    .map((id) => ({ id, limit: limits(id) }))
    .filter(({ limit }) => limit.epoch === 0)
  for (const site of sites) {
    for (const { id, limit } of steady) {
      if (!isAtRest(site, limit) || !site.store.enforces(id)) continue
      const floor = floorOf(limit.base[site.region] ?? 0, limit)
      const share = site.store.effective(id, site.daemon.storeMs())
      if (share < floor) throw new Violation('floor', `${site.region} has ${share} of ${floor}`)
    }
  }
}

/** Serving, with nothing on its way to the store, and not blind. */
function isAtRest({ store, daemon }: Site, limit: LedgerLimit): boolean {
  const { pending, recoveringUntilMs, drains } = daemon.state
  const isBlind = recoveringUntilMs !== null || drains.has(limit.id)
  return store.isServing && daemon.isUp && daemon.isIdle && pending === null && !isBlind
}

/** All admissions of one key, against one limiter that sees them all. */
export class Reference {
  #limit: LedgerLimit
  readonly #windows = new Map<number, number>()
  /** Most that was allowed at some time of a window. */
  readonly #allowed = new Map<number, number>()
  #tokens: number
  #atMs = 0

  constructor(limit: LedgerLimit) {
    this.#limit = limit
    this.#tokens = limit.burst
  }

  /** Goes on under other numbers: a smaller burst is all that a bucket keeps. */
  follow(limit: LedgerLimit, nowMs: number): void {
    if (limit.capacity === this.#limit.capacity) return
    this.#refill(nowMs)
    this.#limit = limit
    this.#tokens = Math.min(limit.burst, this.#tokens)
  }

  /** `window` is what the region that admitted labels this instant with. */
  admit(tokens: number, nowMs: number, window: number): void {
    const { algorithm, capacity } = this.#limit
    if (algorithm === 'fixed_window') {
      const count = (this.#windows.get(window) ?? 0) + tokens
      const allowed = Math.max(this.#allowed.get(window) ?? 0, capacity)
      this.#windows.set(window, count)
      this.#allowed.set(window, allowed)
      if (count > allowed) throw new Violation('window', `${count} of ${allowed} in ${window}`)
      return
    }
    this.#refill(nowMs)
    this.#tokens -= tokens
    if (this.#tokens < -1e-6) throw new Violation('bucket', `${-this.#tokens} tokens too many`)
  }

  #refill(nowMs: number): void {
    const { capacity, burst, windowMs } = this.#limit
    const rate = (capacity / windowMs) * (1 + DRIFT)
    this.#tokens = Math.min(burst, this.#tokens + rate * (nowMs - this.#atMs))
    this.#atMs = nowMs
  }
}
