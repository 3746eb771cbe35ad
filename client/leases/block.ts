import { LEASE_MS, LEASE_REFILL_PART, leaseDeadlineMs } from '../../shared/core/lease.ts'
import type { LeaseAnswer } from '../../shared/protocol/lease-messages.ts'
import { FIELD_INTEGER_MAX } from '../../shared/protocol/limit-words.ts'
import { type Answer, isRecord, type LimitHeaders, limitHeaders } from '../answers.ts'

type Granted = Extract<LeaseAnswer, { readonly id: string }>

/** A header field that says what remains, as what stands before and after the number. */
interface RemainingField {
  readonly name: string
  readonly before: string
  readonly after: string
}

const REMAINING_ITEM = /^(.*;r=)\d+(;t=\d+)$/
const REMAINING_NAME = /^(x-)?ratelimit-remaining$/

/** A block of tokens, and what a check that it covers is answered. */
export class Block {
  readonly id: string
  readonly revision: number
  /** By the monotonic clock: nothing of it may be spent from then on. */
  readonly deadlineMs: number
  /** Another block is asked for once so many tokens are left. */
  readonly refillAt: number
  tokens: number
  readonly #granted: Granted
  readonly #headers: LimitHeaders
  readonly #remaining: readonly RemainingField[]

  constructor(granted: Granted, headers: Readonly<Record<string, unknown>>, sentMs: number) {
    this.id = granted.id
    this.revision = granted.revision
    this.tokens = granted.tokens
    this.refillAt = granted.tokens * LEASE_REFILL_PART
    // Counted from the sending, which is before Redis granted it; what an answer claims beyond a lease is no lease.
    this.deadlineMs = leaseDeadlineMs(sentMs, Math.min(granted.lifeMs, LEASE_MS))
    this.#granted = granted
    this.#headers = limitHeaders(headers)
    this.#remaining = Object.entries(this.#headers).flatMap(remainingField)
  }

  covers(cost: number, nowMs: number): boolean {
    return this.tokens >= cost && nowMs < this.deadlineMs
  }

  /** Spends `cost` tokens of it, which it covers, and gives the answer. */
  spend(cost: number): Answer {
    this.tokens -= cost
    const { region, revision, tokens, decision } = this.#granted
    const remaining = Math.max(0, (decision.remaining ?? 0) - (tokens - this.tokens))
    const headers: Record<string, string> = { ...this.#headers }
    for (const { name, before, after } of this.#remaining) {
      headers[name] = `${before}${Math.min(remaining, FIELD_INTEGER_MAX)}${after}`
    }
    return {
      allowed: true,
      region,
      revision,
      degraded: false,
      decisions: [{ ...decision, remaining }],
      decidedBy: 'lease',
      headers,
    }
  }
}

/** The enforcer's answer; null where it is not one. */
export function parseLeaseAnswer(body: unknown): LeaseAnswer | null {
  if (!isRecord(body) || typeof body['region'] !== 'string') return null
  const { revision, tokens, reason } = body
  if (!isCount(revision) || !isCount(tokens)) return null
  // What the fields that are decided by hold was looked at, or is below; the rest is handed on.
  const answer = body as unknown as LeaseAnswer
  if (tokens === 0) return typeof reason === 'string' ? answer : null
  const { id, lifeMs, decision } = body
  const isBlock = typeof id === 'string' && typeof lifeMs === 'number' && isRecord(decision)
  return isBlock ? answer : null
}

function isCount(value: unknown): value is number {
  return Number.isSafeInteger(value) && Number(value) >= 0
}

function remainingField([name, value]: readonly [string, string]): readonly RemainingField[] {
  if (REMAINING_NAME.test(name)) return [{ name, before: '', after: '' }]
  const [, before, after] = (name === 'ratelimit' && REMAINING_ITEM.exec(value)) || []
  return before === undefined || after === undefined ? [] : [{ name, before, after }]
}
