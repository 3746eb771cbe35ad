import { bindingOf, waitSeconds } from '../core/binding.ts'
import type { Decision } from '../core/decision.ts'
import type { RegionLimit, RegionPolicy } from '../core/policy.ts'
import { asciiJson } from './ascii-json.ts'

/**
 * One limit's part of an answer. `policy` is `domain/name`; `limit` is the capacity and `limitName` the limit's
 * own name; `descriptor` is the position in the request of the descriptor that it matched.
 *
 * `remaining` and `resetMs` are null while nobody knows them (the store did not decide). `retryAfterMs` is null
 * when the limit allows, when the cost is more than it ever admits at once, and when the region's present share
 * never admits it. `reason` is there on a denial, and when the store did not decide.
 */
export interface CheckDecision {
  readonly policy: string
  readonly allowed: boolean
  readonly limit: number
  readonly windowMs: number
  readonly remaining: number | null
  readonly resetMs: number | null
  readonly retryAfterMs: number | null
  readonly reason?: NonNullable<Decision['reason']>
  readonly limitName: string
  readonly descriptor: number
}

/**
 * What a limit that is watched and not enforced would have decided; with `allowed` false it would have denied. A
 * `candidate` carries the name of the limit that it stands beside, and its own numbers.
 */
export interface WatchedDecision extends CheckDecision {
  readonly kind: 'shadow' | 'candidate'
}

/**
 * The answer of `POST /v1/check`. Allowed when every limit allows; otherwise nothing was spent.
 *
 * `watched` and `unlimited` (positions of descriptors) are there when they are not empty. `revision` is the highest
 * policy revision that this enforcer applies. `degraded`: at least one decision was made without the store.
 * `unmatched` is there, and true, when no policy governs any descriptor. `requestId` is that of the request; without
 * one an answer that says who holds tokens of a concurrency limit brings its own. `admittedAtUs` stands beside it where Redis admitted the
 * check, for its refund.
 */
export interface CheckAnswer {
  readonly allowed: boolean
  readonly region: string
  readonly revision: number
  readonly degraded: boolean
  readonly decisions: readonly CheckDecision[]
  readonly watched?: readonly WatchedDecision[]
  readonly unlimited?: readonly number[]
  readonly unmatched?: true
  readonly requestId?: string
  readonly admittedAtUs?: number
}

/** The parts of a decision's JSON that only a change of policy changes, written once per limit; ASCII, as all of an answer. */
export interface DecisionTemplate {
  readonly head: string
  readonly numbers: string
  readonly tail: string
}

export function decisionTemplate(policy: RegionPolicy, limit: RegionLimit): DecisionTemplate {
  return {
    head: `{"policy":${asciiJson(`${policy.domain}/${policy.name}`)},"allowed":`,
    numbers: `,"limit":${limit.nominal ?? limit.capacity},"windowMs":${limit.windowMs},"remaining":`,
    tail: `,"limitName":${asciiJson(limit.name)},"descriptor":`,
  }
}

/** The JSON of one `CheckDecision`. Put together by hand: it is written for each limit of each check. */
export function encodeDecision(
  template: DecisionTemplate,
  decision: Decision,
  descriptor: number,
): string {
  const { allowed, reason, remaining, resetMs, retryAfterMs } = decision
  const said = reason === null ? '' : `,"reason":"${reason}"`
  return `${template.head}${allowed}${template.numbers}${remaining},"resetMs":${resetMs},"retryAfterMs":${retryAfterMs}${said}${template.tail}${descriptor}}`
}

/** The JSON of one `WatchedDecision`. */
export function encodeWatched(kind: 'shadow' | 'candidate', decision: string): string {
  return `{"kind":"${kind}",${decision.slice(1)}`
}

/** The JSON of a `CheckAnswer`, its decisions already encoded and joined by commas. */
export function encodeAnswer(answer: {
  readonly allowed: boolean
  /** The region's name as JSON. */
  readonly regionJson: string
  readonly revision: number
  readonly degraded: boolean
  readonly decisions: string
  readonly watched?: string
  readonly unlimited?: readonly number[]
  readonly unmatched: boolean
}): string {
  const { allowed, regionJson, revision, degraded, decisions } = answer
  const { watched = '', unlimited = [] } = answer
  const besides = `${watched === '' ? '' : `,"watched":[${watched}]`}${
    unlimited.length === 0 ? '' : `,"unlimited":[${unlimited.join(',')}]`
  }`
  const unmatched = answer.unmatched ? ',"unmatched":true' : ''
  return `{"allowed":${allowed},"region":${regionJson},"revision":${revision},"degraded":${degraded},"decisions":[${decisions}]${besides}${unmatched}}`
}

/** `answer`, the JSON of a `CheckAnswer`, with the id of its request and what a refund needs. */
export function withRequestId(
  answer: string,
  requestId: string,
  admittedAtUs: number | null,
): string {
  const admitted = admittedAtUs === null ? '' : `,"admittedAtUs":${admittedAtUs}`
  return `${answer.slice(0, -1)},"requestId":${asciiJson(requestId)}${admitted}}`
}

/** Whole seconds after which a check that met these decisions can pass; null where waiting never helps. */
export function retryAfterSeconds(decisions: readonly Decision[]): number | null {
  const binding = bindingOf(decisions.map((decision) => ({ decision })))
  return binding === null ? null : waitSeconds(binding.decision)
}
