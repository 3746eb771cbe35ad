/**
 * Local leases: blocks of tokens of the keys that this client checks often, spent without asking anybody.
 *
 * Redis debits a block when it is granted, and it is void LEASE_MS after the request for it was sent, by the client's own
 * monotonic clock; so what all clients admit together stays within the limit (`shared/core/lease.ts`), whatever is late
 * or lost. Only an enforcer denies: what no block covers is asked for.
 *
 * A key is idle, or held. A held one has at most a block that is spent, one that waits, and one request for the next.
 */
import { LEASE_MS, LEASE_TOKENS_MIN } from '../../shared/core/lease.ts'
import {
  LEASE_PATH,
  LEASE_RETURN_PATH,
  type LeaseRefusal,
} from '../../shared/protocol/lease-messages.ts'
import type { Answer } from '../answers.ts'
import type { Check } from '../requests.ts'
import { Block, parseLeaseAnswer } from './block.ts'
import { HotKeys } from './hot-keys.ts'
import { LeasedKey } from './leased-key.ts'

export interface LeaseOptions {
  /** Checks of a key in a second from which on its tokens are taken in blocks; 100 unless told. */
  readonly checksPerSecond?: number
  /** Most keys with blocks at once; 1,000 unless told. One more is asked for check by check. */
  readonly keysMax?: number
}

/** What became of blocks since the client was made. */
export interface LeaseCounts {
  /** Keys that have blocks, or are asked for some, at present. */
  readonly keys: number
  /** Checks that blocks answered, and their tokens. */
  readonly checks: number
  readonly admitted: number
  /** Tokens granted in blocks, and those given back. What was neither admitted nor given back is void. */
  readonly granted: number
  readonly returned: number
}

/** What a check may lack goes back: it is to be asked for after that. */
export interface Leaving {
  readonly settled: Promise<unknown>
}

/** One request to the enforcers. Rejects as a check does. */
export type Post = (
  path: string,
  body: string,
) => Promise<{ readonly headers: Readonly<Record<string, unknown>>; readonly body: unknown }>

const CHECKS_PER_SECOND = 100
const KEYS_MAX = 1_000

/** How often blocks are looked at. Twice in this time a block must be able to come back before it ends. */
export const TICK_MS = 20

/** A block goes back once it has less than this to live, so that what is left of it is not lost. */
const GIVE_UP_BEFORE_MS = 1.5 * TICK_MS

/** A key that was not asked for in so many ticks gives its blocks back. */
const IDLE_TICKS = 3

/** How long no block is asked for of a key of which too little is left, or whose block came too late to be spent. */
const PAUSE_MS = 250

/** The same of one that the policy gives none of, unless the policies change; and of all keys after a failure. */
const PAUSE_REFUSED_MS = 5_000
const PAUSE_FAILED_MS = 1_000

const SOON: ReadonlySet<LeaseRefusal> = new Set<LeaseRefusal>(['empty', 'store_unavailable'])

export class Leases {
  readonly #post: Post
  readonly #nowMs: () => number
  readonly #keysMax: number
  readonly #hot: HotKeys
  readonly #held = new Map<string, LeasedKey>()
  readonly #underWay = new Set<Promise<unknown>>()
  readonly #counts = { checks: 0, admitted: 0, granted: 0, returned: 0 }
  #timer: NodeJS.Timeout | null = null
  /** Highest revision that an enforcer has told of. */
  #revision = 0
  #pausedUntilMs = Number.NEGATIVE_INFINITY
  #isClosed = false

  constructor(post: Post, options: LeaseOptions, nowMs = () => performance.now()) {
    const { checksPerSecond = CHECKS_PER_SECOND, keysMax = KEYS_MAX } = options
    if (!(checksPerSecond > 0)) throw new RangeError('leases.checksPerSecond must be above 0')
    if (!(Number.isSafeInteger(keysMax) && keysMax > 0)) {
      throw new RangeError('leases.keysMax must be a whole number above 0')
    }
    this.#post = post
    this.#nowMs = nowMs
    this.#keysMax = keysMax
    this.#hot = new HotKeys(checksPerSecond)
  }

  get counts(): LeaseCounts {
    return { keys: this.#held.size, ...this.#counts }
  }

  /**
   * The answer to a check that a block covers; null where an enforcer is to be asked, or what is to settle before. Of one
   * descriptor, without a `requestId`: what is named is refunded and released in Redis, which must have admitted it by
   * that name.
   */
  take(check: Check): Answer | Leaving | null {
    const { cost = 1, requestId, signal } = check
    if (this.#isClosed || requestId !== undefined || signal?.aborted === true) return null
    if (!(Number.isSafeInteger(cost) && cost > 0)) return null
    const key = LeasedKey.nameOf(check)
    if (key === null) return null
    const nowMs = this.#nowMs()
    const held = this.#held.get(key)
    if (held === undefined) {
      if (this.#hot.see(key, nowMs)) this.#hold(key, check)
      return null
    }
    held.asked += cost
    return this.#spend(held, cost, nowMs)
  }

  /** An enforcer applies `revision`: blocks from before it go back, and what was refused may be granted. */
  noteRevision(revision: number): void {
    if (!(revision > this.#revision)) return
    this.#revision = revision
    for (const held of this.#held.values()) {
      held.pausedUntilMs = Number.NEGATIVE_INFINITY
      void Promise.all(this.#retire(held, (block) => block.revision < revision))
    }
  }

  /** Gives everything back, and leases nothing from then on. Resolves when enforcers have it, or have failed. */
  async close(): Promise<void> {
    this.#isClosed = true
    if (this.#timer !== null) clearTimeout(this.#timer)
    for (const [key, held] of this.#held) this.#drop(key, held)
    // A block that is on its way goes back as soon as it is here.
    while (this.#underWay.size > 0) await Promise.all(this.#underWay)
  }

  #spend(held: LeasedKey, cost: number, nowMs: number): Answer | Leaving | null {
    const { block, next } = held
    let usable = block
    if (block === null || !block.covers(cost, nowMs)) {
      if (next === null || !next.covers(cost, nowMs)) return this.#leave(held, cost)
      held.block = usable = next
      held.next = null
      if (block !== null) void this.#giveBack(held, block)
    }
    if (usable === null) return null
    const answer = usable.spend(cost)
    this.#counts.checks += 1
    this.#counts.admitted += cost
    if (usable.tokens <= usable.refillAt) this.#ask(held)
    return answer
  }

  /**
   * Has an enforcer decide. A dear check is not to be denied for want of what is held here: where Redis had little left,
   * blocks go back before it, the one that is on its way too, and the next is asked for at a later tick.
   */
  #leave(held: LeasedKey, cost: number): Leaving | null {
    if (cost === 1 || !held.isShortOf(cost)) {
      this.#ask(held)
      return null
    }
    const returns = this.#retire(held, () => true)
    if (held.asking !== null && cost >= LEASE_TOKENS_MIN) {
      held.isRecalled = true
      returns.push(held.asking)
    }
    return returns.length === 0 ? null : { settled: Promise.all(returns) }
  }

  #hold(key: string, check: Check): void {
    if (this.#held.size >= this.#keysMax || this.#nowMs() < this.#pausedUntilMs) return
    const held = new LeasedKey(check)
    this.#held.set(key, held)
    this.#ask(held)
    this.#timer ??= this.#nextTick()
  }

  #nextTick(): NodeJS.Timeout {
    // What is held is void soon whether the process lives or not, so it need not be kept alive for it.
    return setTimeout(() => this.#tick(), TICK_MS).unref()
  }

  #tick(): void {
    const nowMs = this.#nowMs()
    for (const [key, held] of this.#held) {
      const idleTicks = held.tick()
      if (idleTicks >= IDLE_TICKS && nowMs >= held.pausedUntilMs && held.asking === null) {
        this.#drop(key, held)
        continue
      }
      void Promise.all(this.#retire(held, (block) => nowMs >= block.deadlineMs - GIVE_UP_BEFORE_MS))
      if (idleTicks === 0 && held.next === null && endsSoon(held.block, nowMs)) this.#ask(held)
    }
    this.#timer = this.#held.size === 0 ? null : this.#nextTick()
  }

  #drop(key: string, held: LeasedKey): void {
    held.isHeld = false
    this.#held.delete(key)
    void Promise.all(this.#retire(held, () => true))
  }

  #retire(held: LeasedKey, isOver: (block: Block) => boolean): Promise<void>[] {
    const returns: Promise<void>[] = []
    for (const place of ['block', 'next'] as const) {
      const block = held[place]
      if (block === null || !isOver(block)) continue
      held[place] = null
      returns.push(this.#giveBack(held, block))
    }
    return returns
  }

  /** Asks for a block unless one is on its way, or waits to be spent. */
  #ask(held: LeasedKey): void {
    // The instant from which the block may be spent is taken before anything of it is sent.
    const sentMs = this.#nowMs()
    const isPaused = sentMs < Math.max(held.pausedUntilMs, this.#pausedUntilMs)
    if (held.asking !== null || held.next !== null || isPaused || this.#isClosed) return
    const perTick = Math.max(held.askedPerTick, held.asked)
    const tokens = Math.max(LEASE_TOKENS_MIN, Math.ceil((perTick * LEASE_MS) / (2 * TICK_MS)))
    const body = held.encode({ tokens })
    held.asking = this.#post(LEASE_PATH, body)
      .then(
        (reply) => this.#answered(held, { ...reply, sentMs }),
        () => this.#failed(),
      )
      .finally(() => {
        held.asking = null
        held.isRecalled = false
      })
    this.#follow(held.asking)
  }

  #answered(
    held: LeasedKey,
    reply: {
      readonly headers: Readonly<Record<string, unknown>>
      readonly body: unknown
      readonly sentMs: number
    },
  ): void | Promise<void> {
    const answer = parseLeaseAnswer(reply.body)
    if (answer === null) {
      this.#failed()
      return
    }
    this.noteRevision(answer.revision)
    const nowMs = this.#nowMs()
    if ('reason' in answer) {
      const pauseMs = SOON.has(answer.reason) ? PAUSE_MS : PAUSE_REFUSED_MS
      held.pausedUntilMs = nowMs + pauseMs
      return
    }
    this.#counts.granted += answer.tokens
    held.remaining = (answer.decision.remaining ?? 0) - answer.tokens
    const block = new Block(answer, reply.headers, reply.sentMs)
    const isLate = !block.covers(1, nowMs)
    const isOld = block.revision < this.#revision
    // A block of few tokens saves nothing: there are few left, and to ask for each of them would be one request more.
    const isSmall = answer.tokens < LEASE_TOKENS_MIN
    if (isLate || isOld || isSmall) held.pausedUntilMs = nowMs + PAUSE_MS
    if (!held.isHeld || held.isRecalled || isLate || isOld) return this.#giveBack(held, block)
    held.next = block
  }

  /** Checks go on one by one: an enforcer without leases, an outage, a token that is refused. */
  #failed(): void {
    this.#pausedUntilMs = this.#nowMs() + PAUSE_FAILED_MS
  }

  /** A block whose return fails is void at its end; its bucket refills by itself, its window misses it until it ends. */
  #giveBack(held: LeasedKey, block: Block): Promise<void> {
    const { id, tokens } = block
    block.tokens = 0
    if (tokens === 0) return Promise.resolve()
    const returned = this.#post(LEASE_RETURN_PATH, held.encode({ id, tokens })).then(
      () => {
        this.#counts.returned += tokens
      },
      () => {},
    )
    this.#follow(returned)
    return returned
  }

  #follow(work: Promise<void>): void {
    this.#underWay.add(work)
    void work.finally(() => this.#underWay.delete(work))
  }
}

/** Whether what is held will have been given back at the next tick, so that another block must be there by then. */
function endsSoon(block: Block | null, nowMs: number): boolean {
  return block === null || nowMs + TICK_MS >= block.deadlineMs - GIVE_UP_BEFORE_MS
}
