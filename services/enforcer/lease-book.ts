/**
 * The token leases that this enforcer holds: what it may admit of hot counters without asking Redis.
 *
 * A counter is leased while it is asked for often, and given up when it is not. A block is refilled in the
 * background before it is empty, by one request at a time. What no block covers falls through to Redis, which alone
 * denies; what is left of the blocks goes there first, or it could deny what is there. Blocks that are about to end, of
 * idle counters and of changed policies go back.
 */
import {
  LEASE_MS,
  LEASE_REFILL_PART,
  LEASE_TOKENS_MIN,
  leaseDeadlineMs,
} from '../../shared/core/lease.ts'
import type {
  CheckAnswer,
  CheckTarget,
  GroupCheck,
  LeaseStore,
  LimitDecision,
  SoleCheck,
} from '../../shared/core/ports.ts'
import { isQuotaError } from '../../shared/errors.ts'
import type { Clock } from '../../shared/runtime/clock.ts'
import { HotCounters } from './hot-counters.ts'
import type { SoleRoute } from './route.ts'
import { TurnClock } from './turn-clock.ts'

/** How often blocks are looked at. Twice in this time a block must be able to come back before it ends. */
export const LEASE_TICK_MS = 20

/** A block goes back once it has less than this to live, so that what is left of it is not lost. */
const GIVE_UP_BEFORE_MS = 1.5 * LEASE_TICK_MS

/** Most counters leased at once. One that is not leased is only slower. */
const HELD_MAX = 1_024

/** What a counter that has just become hot is taken to spend in a tick. */
const SPENT_PER_TICK_FIRST = 40

/** A counter with nothing to lease, or too small a limit, is asked for again after this. */
const PAUSE_MS = 250

/** Blocks are as large as what 50 ms spend, and live for 100 ms; so much may have gone from Redis since the last one. */
const SHORT_OF = 4

interface Block {
  readonly id: string
  /** Another block is asked for below so many tokens. */
  readonly refillAt: number
  readonly atUs: number
  readonly deadlineMs: number
  tokens: number
}

/** A counter that is leased, and what is left to spend of it. */
export class Held {
  readonly group: number
  readonly version: number
  readonly target: CheckTarget
  /** False once it was given up. */
  isHeld = true
  block: Block | null = null
  next: Block | null = null
  /** When the block that is spent was granted, by Redis TIME; null before the first. */
  atUs: number | null = null
  remaining = 0
  resetMs = 0
  isAsking = false
  /** The block that is on its way; recalled where it goes back as soon as it is here. */
  asked = { id: '', tokens: 0, isRecalled: false }
  /** Tokens spent since the last tick, and smoothed over the ticks before. */
  spent = 0
  /** Whether a check went to Redis since the last tick for want of tokens. */
  isMissed = false
  spentPerTick = SPENT_PER_TICK_FIRST
  idleTicks = 0
  pausedUntilMs = 0

  constructor(group: number, target: CheckTarget, version: number) {
    this.group = group
    this.target = target
    this.version = version
  }

  /** What a check is told that was just admitted. */
  said(): LimitDecision {
    const { remaining: left, resetMs, block } = this
    const remaining = block === null ? left : left + block.tokens
    return { allowed: true, reason: null, remaining, resetMs, retryAfterMs: null }
  }
}

/** What is counted of leases. */
export interface LeaseCounts {
  granted: number
  returned: number
  admitted: number
}

export class LeaseBook {
  readonly counts: LeaseCounts = { granted: 0, returned: 0, admitted: 0 }
  readonly #store: LeaseStore
  readonly #clock: Clock
  readonly #owner: string
  readonly #held = new Map<string, Held>()
  readonly #hot = new HotCounters()
  readonly #turnClock: TurnClock
  readonly #asked = new Set<Promise<unknown>>()
  #ids = 0
  #isClosed = false

  /** `owner` tells the blocks of this process from all others, of its earlier lives too. */
  constructor(options: {
    readonly store: LeaseStore
    readonly clock: Clock
    readonly owner: string
  }) {
    this.#store = options.store
    this.#clock = options.clock
    this.#owner = options.owner
    this.#turnClock = new TurnClock(options.clock)
  }

  /** Counters leased at present. */
  get size(): number {
    return this.#held.size
  }

  /** Admits a check out of blocks that cover all of its targets; null where Redis is to be asked. */
  take(check: GroupCheck, version: number): CheckAnswer | null {
    if (this.#held.size === 0 || check.cost === 0) return null
    const nowMs = this.#clock.monotonicMs()
    const [only] = check.targets
    if (only === undefined) return null
    if (check.targets.length === 1) {
      const held = this.#usable(only, check.cost, { version, nowMs })
      return held === null ? null : this.#spend([held], check.cost)
    }
    const all: Held[] = []
    for (const target of check.targets) {
      const held = this.#usable(target, check.cost, { version, nowMs })
      if (held === null || all.includes(held)) return this.#leaveAll(check)
      all.push(held)
    }
    return this.#spend(all, check.cost)
  }

  /** As `take` of the one limit of a route; gives the lease that admitted it. */
  takeOne(route: SoleRoute, cost: number, version: number): Held | null {
    const held = this.#leaseOf(route)
    if (held === null || cost === 0) return null
    const nowMs = this.#turnClock.monotonicMs()
    const { block } = held
    if (block !== null && held.version === version && covers(block, cost, nowMs)) {
      this.#spendOf(held, block, cost)
      return held
    }
    const usable = this.#usable(route.target, cost, { version, nowMs })
    if (usable === null || usable.block === null) return null
    this.#spendOf(usable, usable.block, cost)
    return usable
  }

  /** Notes a check that goes to Redis: a counter that is asked for often is leased from then on. */
  watch(check: GroupCheck, version: number): void {
    for (const target of this.#hot.see(check.targets, check.cost)) {
      this.#holdHot(check.group, target, version)
    }
  }

  /** As `watch` of one target. */
  watchOne({ group, target, cost, version }: SoleCheck): void {
    if (this.#hot.seeOne(target, cost)) this.#holdHot(group, target, version)
  }

  /** Every LEASE_TICK_MS. Never rejects: what cannot go back ends by itself. */
  async tick(): Promise<void> {
    this.#hot.tick()
    const nowMs = this.#clock.monotonicMs()
    const returns: Promise<void>[] = []
    for (const held of this.#held.values()) {
      held.spentPerTick = (held.spentPerTick + held.spent) / 2
      held.idleTicks = held.spent === 0 && !held.isMissed ? held.idleTicks + 1 : 0
      held.spent = 0
      held.isMissed = false
      const isIdle = held.idleTicks >= 2 && nowMs >= held.pausedUntilMs && !held.isAsking
      if (isIdle) this.#drop(held)
      returns.push(...this.#retire(held, isIdle ? Number.POSITIVE_INFINITY : nowMs))
      if (!isIdle && held.next === null && endsSoon(held.block, nowMs)) this.#ask(held)
    }
    await Promise.all(returns)
  }

  /** Gives everything back, and leases nothing from then on. Resolves when Redis has it, or has failed. */
  async close(): Promise<void> {
    this.#isClosed = true
    const all = [...this.#held.values()]
    for (const held of all) this.#drop(held)
    const returns = all.flatMap((held) => this.#retire(held, Number.POSITIVE_INFINITY))
    // A block that is on its way goes back as soon as it is here.
    await Promise.all([...returns, ...this.#asked])
  }

  /** What is held of the counter of `route`, remembered with it. */
  #leaseOf(route: SoleRoute): Held | null {
    const { lease } = route
    if (lease?.isHeld === true) return lease
    const held = this.#held.get(route.target.counter) ?? null
    route.lease = held
    return held
  }

  #drop(held: Held): void {
    held.isHeld = false
    this.#held.delete(held.target.counter)
  }

  #usable(
    target: CheckTarget,
    cost: number,
    { version, nowMs }: { readonly version: number; readonly nowMs: number },
  ): Held | null {
    const held = this.#held.get(target.counter)
    if (held === undefined) return null
    if (held.version !== version) {
      // Its numbers may have changed; what is left goes back under those that are in force.
      this.#drop(held)
      const successor = new Held(held.group, target, version)
      successor.block = held.block
      successor.next = held.next
      void Promise.all(this.#retire(successor, Number.POSITIVE_INFINITY))
      return null
    }
    const { block, next } = held
    if (block !== null && covers(block, cost, nowMs)) return held
    if (next !== null && covers(next, cost, nowMs)) {
      held.block = next
      held.atUs = next.atUs
      held.next = null
      if (block !== null) void this.#giveUp(held, block)
      return held
    }
    this.#leave(held, cost)
    return null
  }

  /**
   * Of several counters one is not covered, and Redis decides about all of them. It may be one that is never leased, so
   * only blocks of counters that Redis had little left of go back: others would go back with each such check.
   */
  #leaveAll({ targets, cost }: GroupCheck): null {
    for (const { counter } of targets) {
      const held = this.#held.get(counter)
      if (held !== undefined && isShort(held, cost)) this.#leave(held, cost)
    }
    return null
  }

  /**
   * Gives back what is left, on the connection on which the check follows; a block is asked for at a later tick. Where
   * the check is as dear as a block, and Redis had little left, the block that is on its way goes back too, behind the
   * asking for it. Cheap ones come too often for that, and what they lack comes with it.
   */
  #leave(held: Held, cost: number): void {
    const { asked, group, target, version } = held
    const isRecalled = held.isAsking && cost >= LEASE_TOKENS_MIN && isShort(held, cost)
    held.isMissed = true
    const isAny = held.block !== null || held.next !== null
    if (isAny) void Promise.all(this.#retire(held, Number.POSITIVE_INFINITY))
    if (!isRecalled || asked.isRecalled) return
    asked.isRecalled = true
    // Said again when it is here, and counted then: Redis credits it once.
    this.#store.giveUp({ ...asked, group, target }, version).catch(ignoreOutage)
  }

  #spend(all: readonly Held[], cost: number): CheckAnswer {
    const decisions: LimitDecision[] = []
    let atUs = 0
    for (const held of all) {
      const { block } = held
      if (block === null) continue
      atUs = block.atUs
      this.#spendOf(held, block, cost)
      decisions.push(held.said())
    }
    return { atUs, decisions }
  }

  #spendOf(held: Held, block: Block, cost: number): void {
    block.tokens -= cost
    held.spent += cost
    this.counts.admitted += cost
    if (block.tokens < block.refillAt) this.#ask(held)
  }

  #holdHot(group: number, target: CheckTarget, version: number): void {
    const isRoom = this.#held.size < HELD_MAX && !this.#isClosed
    if (!isRoom || this.#held.has(target.counter)) return
    const held = new Held(group, target, version)
    this.#held.set(target.counter, held)
    this.#ask(held)
  }

  /** Asks for a block unless one is on its way, or waits to be used. */
  #ask(held: Held): void {
    if (held.isAsking || held.next !== null || this.#isClosed) return
    const sentMs = this.#clock.monotonicMs()
    if (sentMs < held.pausedUntilMs) return
    held.isAsking = true
    const perTick = Math.max(held.spentPerTick, held.spent)
    const tokens = Math.max(LEASE_TOKENS_MIN, Math.ceil((perTick * LEASE_MS) / (2 * LEASE_TICK_MS)))
    this.#ids += 1
    const ask = {
      id: `${this.#owner}.${this.#ids}`,
      group: held.group,
      target: held.target,
      tokens,
    }
    const onItsWay = { id: ask.id, tokens, isRecalled: false }
    held.asked = onItsWay
    const asked = this.#store.grant(ask, held.version).then(
      (grant) => {
        held.isAsking = false
        if (grant === null || grant.tokens === 0) {
          held.pausedUntilMs = this.#clock.monotonicMs() + PAUSE_MS
          return undefined
        }
        this.counts.granted += grant.tokens
        held.remaining = grant.remaining
        held.resetMs = grant.resetMs
        const deadlineMs = leaseDeadlineMs(sentMs, grant.lifeMs)
        held.next = {
          id: ask.id,
          refillAt: grant.tokens * LEASE_REFILL_PART,
          atUs: grant.atUs,
          deadlineMs,
          tokens: grant.tokens,
        }
        // Given up while it was on its way.
        if (this.#held.get(held.target.counter) !== held || onItsWay.isRecalled) {
          return Promise.all(this.#retire(held, Number.POSITIVE_INFINITY))
        }
        return undefined
      },
      (err: unknown) => {
        held.isAsking = false
        held.pausedUntilMs = this.#clock.monotonicMs() + PAUSE_MS
        if (!isQuotaError(err)) throw err
      },
    )
    this.#asked.add(asked)
    void asked.finally(() => this.#asked.delete(asked))
  }

  /** Gives back the blocks that end within GIVE_UP_BEFORE_MS of `nowMs`; infinite: all. */
  #retire(held: Held, nowMs: number): Promise<void>[] {
    const returns: Promise<void>[] = []
    for (const place of ['block', 'next'] as const) {
      const block = held[place]
      if (block === null || nowMs < block.deadlineMs - GIVE_UP_BEFORE_MS) continue
      held[place] = null
      returns.push(this.#giveUp(held, block))
    }
    return returns
  }

  async #giveUp({ group, target, version }: Held, block: Block): Promise<void> {
    const { id, tokens } = block
    block.tokens = 0
    if (tokens === 0) return
    try {
      await this.#store.giveUp({ id, group, target, tokens }, version)
      this.counts.returned += tokens
    } catch (err) {
      ignoreOutage(err)
    }
  }
}

/** What does not come back of a bucket refills by itself; of a window it is lost until its end. */
function ignoreOutage(err: unknown): void {
  if (!isQuotaError(err)) throw err
}

/** Whether what is held will have been given up at the next tick, so that another block must be there by then. */
function endsSoon(block: Block | null, nowMs: number): boolean {
  return block === null || nowMs + LEASE_TICK_MS >= block.deadlineMs - GIVE_UP_BEFORE_MS
}

/** Whether Redis, when it last granted, had so little left that by now it may lack `cost`. */
function isShort({ block, next, remaining }: Held, cost: number): boolean {
  const unspent = (block?.tokens ?? 0) + (next?.tokens ?? 0)
  return remaining < SHORT_OF * (cost + unspent)
}

function covers(block: Block, cost: number, nowMs: number): boolean {
  return block.tokens >= cost && nowMs < block.deadlineMs
}
