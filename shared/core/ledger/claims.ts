/** What each region in reach has and needs of one key, as this region sees it. */
import type { Claim } from '../allocation/allocator.ts'
import { floorOf } from '../base-split.ts'
import type { CounterId } from '../descriptor.ts'
import type { RegionId } from '../policy.ts'
import { DEAF_AFTER_MS, SILENT_AFTER_MS } from './constants.ts'
import type { Draft, Part, Reach } from './draft.ts'
import { basesOf } from './homes.ts'
import { quarantinedOf } from './rows.ts'
import type { KeyState } from './state.ts'
import type { LedgerLimit, RecordRow } from './types.ts'

/** A thousandth of a token a second: demand travels in whole numbers. */
const MILLITOKENS = 1_000

/**
 * The claims of this region and of every peer that was heard lately and knows its own ledger.
 *
 * A share is the base, less what is lent and quarantined, plus what is borrowed; units on their way count with
 * the region that they are on their way to, so that nobody sends them twice.
 */
export function claimsOn(draft: Draft, key: KeyState, limit: LedgerLimit): readonly Claim[] {
  const reach = reachOf(draft)
  const parts = partsOf(draft, reach, limit)
  const rows = reach.heard.map((heard) => heard?.rows.get(key.row.id))
  const shares = sharesOf({ draft, reach, key, rows }, parts)
  const claims: Claim[] = []
  for (let place = 0; place < draft.members.length; place++) {
    const region = draft.members[place]
    if (region === undefined || reach.isNear[place] !== true) continue
    const row = rows[place]
    const isSelf = region === draft.self
    const { base, floor } = parts[place] ?? NO_PART
    claims.push({
      region,
      base,
      floor,
      share: Math.max(0, shares[place] ?? 0),
      demand: isSelf ? (key.estimate?.perSecond ?? 0) : (row?.demand ?? 0) / MILLITOKENS,
      hungry: isSelf ? key.estimate?.hungry === true : row?.hungry === true,
    })
  }
  return claims
}

/**
 * True for peers that take part in rebalancing: heard lately, not recovering, and known to hear this region.
 *
 * A peer that is heard but does not hear would never learn of a loan, nor could it say that the loan's term is
 * dead; the lender would go on acknowledging it and never get the units back.
 */
export function isInReach(draft: Draft, region: RegionId): boolean {
  const heard = draft.heard.get(region)
  if (heard === undefined || heard.record.recovering) return false
  if (draft.nowMs - heard.atMs > SILENT_AFTER_MS) return false
  const ack = heard.record.acks[draft.self]
  const sent = ack?.incarnation === draft.incarnation ? draft.sent.get(ack.seq) : undefined
  return sent !== undefined && draft.nowMs - sent.atMs <= DEAF_AFTER_MS
}

export function isOtherHungry(draft: Draft, id: CounterId): boolean {
  const { heard, isNear } = reachOf(draft)
  return heard.some((peer, place) => isNear[place] === true && peer?.rows.get(id)?.hungry === true)
}

/** Demand as it travels. */
export function toMillitokens(perSecond: number): number {
  return Math.round(perSecond * MILLITOKENS)
}

const NO_PART: Part = { base: 0, floor: 0 }

/** Thousands of keys are looked at in one step, and each asks for the same. */
function reachOf(draft: Draft): Reach {
  draft.reach ??= {
    places: new Map(draft.members.map((region, place) => [region, place])),
    heard: draft.members.map((region) => draft.heard.get(region)),
    isNear: draft.members.map((region) => region === draft.self || isInReach(draft, region)),
    parts: new Map(),
  }
  return draft.reach
}

function partsOf(draft: Draft, reach: Reach, limit: LedgerLimit): readonly Part[] {
  const bases = basesOf(draft, limit)
  const known = reach.parts.get(bases)
  if (known !== undefined) return known
  const parts = draft.members.map((region) => {
    const base = bases.get(region) ?? 0
    return { base, floor: floorOf(base, limit) }
  })
  reach.parts.set(bases, parts)
  return parts
}

interface Looked {
  readonly draft: Draft
  readonly reach: Reach
  readonly key: KeyState
  /** What each member said of the key, by place. */
  readonly rows: readonly (RecordRow | undefined)[]
}

/** Units of each member, by place. What is owed to or by a region that is no member is at neither. */
function sharesOf(looked: Looked, parts: readonly Part[]): readonly number[] {
  const { draft, reach, key, rows } = looked
  const shares = parts.map(({ base }) => base)
  const self = reach.places.get(draft.self)
  add(shares, self, -quarantinedOf(key.row))
  // Entries by name: this is worked out for thousands of keys a second, and most have no loans.
  for (const borrower in key.row.lent) {
    move(shares, self, reach.places.get(borrower), unitsOf(key.row.lent[borrower]))
  }
  for (const lender in key.row.borrowed) {
    move(shares, reach.places.get(lender), self, unitsOf(key.row.borrowed[lender]))
  }
  for (let lender = 0; lender < rows.length; lender++) moveHeard(looked, shares, lender)
  return shares
}

/** Counts the loans of a peer to others than this region, and what it may not use yet. */
function moveHeard({ draft, reach, rows }: Looked, shares: number[], lender: number): void {
  const row = rows[lender]
  if (row === undefined) return
  add(shares, lender, -row.quarantined)
  for (const borrower in row.lent) {
    const loan = row.lent[borrower]
    // What this region borrowed is counted from its own row.
    if (loan === undefined || borrower === draft.self) continue
    const to = reach.places.get(borrower)
    const told = to === undefined ? undefined : rows[to]?.gaveBack[draft.members[lender] ?? '']
    move(shares, lender, to, outOf(loan, told))
  }
}

function unitsOf(loan: { readonly lent: number; readonly returned: number } | undefined): number {
  return loan === undefined ? 0 : loan.lent - loan.returned
}

function move(
  shares: number[],
  from: number | undefined,
  to: number | undefined,
  units: number,
): void {
  add(shares, from, -units)
  add(shares, to, units)
}

function add(shares: number[], place: number | undefined, units: number): void {
  if (place !== undefined) shares[place] = (shares[place] ?? 0) + units
}

/** What one peer lent another and did not get back, by whichever of the two tells more of it. */
function outOf(
  loan: readonly [born: number, lent: number, returned: number],
  told: readonly [born: number, returned: number] | undefined,
): number {
  const [born, lent, returned] = loan
  const back = told !== undefined && told[0] === born ? told[1] : 0
  return Math.max(0, lent - Math.max(returned, back))
}
