/**
 * Counters that have nothing left, and until when: what asks for them is denied without asking Redis again.
 *
 * Such an answer is what Redis would have said. It is kept only while nothing could pass: of a counter without a whole
 * token left, until the instant at which Redis said that the same cost can pass, and only while the region's news
 * are heard, which tell at once of a refund, a returned lease, a grown share or other policies. A check that was under
 * way when such news came may have been decided before them, so its answer is not kept. Everything ends after
 * KEPT_MS_MAX, should news ever get lost. What was denied so is counted in Redis a moment later, for a region's demand
 * is what it denies too.
 */
import { parseCounterId } from '../../shared/core/counter-id.ts'
import type { CounterId } from '../../shared/core/descriptor.ts'
import type { Algorithm, RegionLimit } from '../../shared/core/policy.ts'
import type {
  CheckAnswer,
  CheckTarget,
  Denial,
  DenialLog,
  GroupCheck,
  LimitDecision,
} from '../../shared/core/ports.ts'
import { isQuotaError } from '../../shared/errors.ts'
import type { Clock } from '../../shared/runtime/clock.ts'
import { TurnClock } from './turn-clock.ts'

/** How often denials are counted in Redis; the daemon reads them once a second. */
export const DENIALS_TICK_MS = 100

/** Most counters kept. The oldest goes for another: it is asked for in Redis again. */
const KEPT_MAX = 10_000

const KEPT_MS_MAX = 1_000

/** A shorter wait is over before keeping it has saved anything. */
const WAIT_MS_MIN = 10

/** What is left of these changes with time alone, so a wait that was told stays true while nothing is given back. */
const KEPT: ReadonlySet<Algorithm> = new Set<Algorithm>([
  'token_bucket',
  'leaky_bucket',
  'fixed_window',
  'sliding_window',
  'sliding_log',
  'sliding_counter',
])

interface Kept {
  readonly group: number
  readonly version: number
  readonly cost: number
  readonly atUs: number
  readonly decision: LimitDecision
  readonly receivedMs: number
  readonly untilMs: number
}

interface Uncounted {
  readonly group: number
  readonly version: number
  readonly target: CheckTarget
  tokens: number
}

export class DeniedKeys {
  /** Denials out of memory so far. */
  denied = 0
  readonly #log: DenialLog
  readonly #clock: Clock
  readonly #turnClock: TurnClock
  readonly #kept = new Map<string, Kept>()
  readonly #uncounted = new Map<string, Uncounted>()
  /** By slot group: when news of one of its counters came last. */
  readonly #newsMs = new Map<number, number>()
  #forgottenMs = 0
  #isHeard = false

  constructor(options: { readonly log: DenialLog; readonly clock: Clock }) {
    this.#log = options.log
    this.#clock = options.clock
    this.#turnClock = new TurnClock(options.clock)
  }

  /** Counters kept. */
  get size(): number {
    return this.#kept.size
  }

  get isHeard(): boolean {
    return this.#isHeard
  }

  nowMs(): number {
    return this.#clock.monotonicMs()
  }

  /** An instant not after the present, for what is sent in this turn of the event loop. */
  sentMs(): number {
    return this.#turnClock.monotonicMs()
  }

  /** Denies a check of one counter that is known to deny it still; null where Redis is to be asked. */
  take({ targets, cost, group }: GroupCheck, version: number): CheckAnswer | null {
    if (this.#kept.size === 0) return null
    const [target] = targets
    if (target === undefined || targets.length > 1) return null
    const kept = this.#kept.get(target.counter)
    if (kept === undefined || kept.cost !== cost) return null
    const nowMs = this.#clock.monotonicMs()
    if (nowMs >= kept.untilMs || kept.version !== version) {
      this.#kept.delete(target.counter)
      return null
    }
    this.denied++
    this.#count({ group, version, target, tokens: cost })
    const { decision, receivedMs, atUs } = kept
    const passedMs = Math.floor(nowMs - receivedMs)
    const { resetMs, retryAfterMs } = decision
    return {
      atUs,
      decisions: [
        {
          ...decision,
          resetMs: Math.max(0, resetMs - passedMs),
          retryAfterMs: Math.max(1, (retryAfterMs ?? 1) - passedMs),
        },
      ],
    }
  }

  /** Keeps what Redis answered to a check that was sent at `sentMs`, where that is a denial that stays true. */
  note(
    { targets, cost, group }: GroupCheck,
    { atUs, decisions }: CheckAnswer,
    asked: { readonly version: number; readonly sentMs: number },
  ): void {
    const [target] = targets
    const [decision] = decisions
    if (target === undefined || decision === undefined || targets.length > 1) return
    if (!this.#isHeard || !staysTrue(target.limit, cost, decision)) return
    if (Math.max(this.#newsMs.get(group) ?? 0, this.#forgottenMs) >= asked.sentMs) return
    const waitMs = Math.min(decision.retryAfterMs ?? 0, KEPT_MS_MAX)
    if (waitMs < WAIT_MS_MIN) return
    const receivedMs = this.#clock.monotonicMs()
    this.#makeRoom()
    const { version } = asked
    const untilMs = receivedMs + waitMs
    this.#kept.set(target.counter, { group, version, cost, atUs, decision, receivedMs, untilMs })
  }

  /** News of the region: this counter may admit more than it said. */
  grown(counter: CounterId): void {
    const group = parseCounterId(counter)?.group
    if (group === undefined) return
    this.#newsMs.set(group, this.#clock.monotonicMs())
    this.#kept.delete(counter)
  }

  /** News are heard from now on, or no longer; either way nothing that was kept is known to be true. */
  hear(isHeard: boolean): void {
    this.#isHeard = isHeard
    this.forgetAll()
  }

  /** Of checks that are under way, too. */
  forgetAll(): void {
    this.#forgottenMs = this.#clock.monotonicMs()
    this.#kept.clear()
  }

  /** Every DENIALS_TICK_MS, and at the end. Never rejects: denials that cannot be counted are missing from demand. */
  async countOnce(): Promise<void> {
    const all = [...this.#uncounted.values()]
    this.#uncounted.clear()
    const batches = new Map<string, { group: number; version: number; denials: Denial[] }>()
    for (const { group, version, target, tokens } of all) {
      const key = `${group}.${version}`
      const batch = batches.get(key) ?? { group, version, denials: [] }
      batch.denials.push({ target, tokens })
      batches.set(key, batch)
    }
    const counted = [...batches.values()].map(({ group, version, denials }) =>
      this.#log.note(group, denials, version).catch((err: unknown) => {
        if (!isQuotaError(err)) throw err
      }),
    )
    await Promise.all(counted)
  }

  #count({ group, version, target, tokens }: Uncounted): void {
    const known = this.#uncounted.get(target.counter)
    if (known !== undefined && known.version === version) known.tokens += tokens
    else if (this.#uncounted.size < KEPT_MAX) {
      this.#uncounted.set(target.counter, { group, version, target, tokens })
    }
  }

  #makeRoom(): void {
    if (this.#kept.size < KEPT_MAX) return
    const [oldest] = this.#kept.keys()
    if (oldest !== undefined) this.#kept.delete(oldest)
  }
}

/**
 * Whether a denial stays as it is until its wait is over, apart from the time that passes.
 *
 * With a whole token left others might still take it. A dearer check than one token waits longer than the first
 * token does, which then would be there; only a fixed window gives all of them at once.
 */
function staysTrue(limit: RegionLimit, cost: number, decision: LimitDecision): boolean {
  if (decision.allowed || decision.reason !== 'limit' || decision.remaining > 0) return false
  if (limit.stock !== undefined || limit.estimate === true) return false
  return KEPT.has(limit.algorithm) && (cost === 1 || limit.algorithm === 'fixed_window')
}
