/**
 * Token leases: blocks of a region's tokens that one enforcer takes ahead and spends without asking Redis.
 *
 * A leased token is debited at once and may be spent up to LEASE_MS later. So that the bound stays exact, a bucket
 * that has leases out holds less, by what the limit refills in that time: then tokens and leases together never
 * pass what the bucket might hold without leases. A window counts what is leased, which needs no such reserve.
 * `lua/lease.lua` and `lua/return-lease.lua` hold the same rule on Redis.
 */
import { assert } from './assert.ts'
import { DRIFT } from './ledger/constants.ts'

/**
 * How long a lease may be spent, by the clock of Redis.
 *
 * Longer costs a bucket more of its burst and strands more when an enforcer dies; shorter asks Redis more often.
 * All enforcers of a region must agree on it, so it is no setting.
 */
export const LEASE_MS = 100

/** Fewest tokens in a block that saves anything; a limit that holds less than two of them is not leased. */
export const LEASE_TOKENS_MIN = 10

/** A block is refilled in the background once less than this part of it is left. */
export const LEASE_REFILL_PART = 0.2

/** What was granted of a bucket lately, in slots of LEASE_MS: the present slot and the one before it. */
export interface Granted {
  readonly slot: number
  readonly current: number
  readonly previous: number
}

export const NONE_GRANTED: Granted = { slot: 0, current: 0, previous: 0 }

/**
 * Until when an enforcer may spend a lease, by its own clock.
 *
 * Counted from its own sending of the request, which is before Redis granted it; shortened by what both clocks may
 * differ in rate, so it ends before Redis considers it ended.
 */
export function leaseDeadlineMs(sentAtMs: number, lifeMs: number): number {
  return sentAtMs + (lifeMs * (1 - DRIFT)) / (1 + DRIFT)
}

/** Burst of a bucket that has leases out; below zero where the limit refills its burst within a lease's life. */
export function leasedBurst(limit: {
  readonly capacity: number
  readonly windowMs: number
  readonly burst: number
}): number {
  return limit.burst - Math.ceil((limit.capacity * LEASE_MS) / limit.windowMs)
}

/** `granted` as it counts at an instant: what was granted over two slots ago is spent or void. */
export function grantedAt(granted: Granted, atMs: number): Granted {
  const slot = Math.floor(atMs / LEASE_MS)
  if (slot <= granted.slot) return granted
  const previous = slot === granted.slot + 1 ? granted.current : 0
  return { slot, current: 0, previous }
}

export function withGrant(granted: Granted, tokens: number, atMs: number): Granted {
  const now = grantedAt(granted, atMs)
  return { ...now, current: now.current + tokens }
}

/** After `tokens` came back. From the older slot first, so that the rest counts longer, not shorter. */
export function withoutGrant(granted: Granted, tokens: number): Granted {
  const older = Math.min(tokens, granted.previous)
  const current = Math.max(0, granted.current - (tokens - older))
  return { ...granted, previous: granted.previous - older, current }
}

export function outstanding(granted: Granted): number {
  return granted.current + granted.previous
}

/**
 * Tokens of a returned lease that a bucket gets back: never so many that they, its level and the other leases pass
 * what it may hold. The rest is lost and refills by itself.
 */
export function creditOf(returned: {
  readonly tokens: number
  /** What the bucket may hold while it has leases out. */
  readonly capacity: number
  readonly level: number
  /** All that is granted, this lease included. */
  readonly granted: number
}): number {
  const { tokens, capacity, level, granted } = returned
  const room = Math.floor(capacity - level - (granted - tokens))
  return Math.max(0, Math.min(tokens, room))
}

/**
 * Tokens of a new block: what was asked for, but never more than half of what may be held, nor of what is left, so
 * that one enforcer leaves some to the others. Null where the limit is too small to be leased.
 */
export function blockOf(ask: {
  readonly wanted: number
  readonly most: number
  readonly left: number
}): number | null {
  const { wanted, most, left } = ask
  assert(wanted >= 1, 'a block has tokens')
  if (most < 2 * LEASE_TOKENS_MIN) return null
  return Math.max(0, Math.min(wanted, Math.floor(most / 2), Math.ceil(left / 2)))
}
