/** Turns a verdict into an HTTP answer: its JSON, the rate limit header fields, and what a denial becomes. */
import { bindingOf, waitSeconds } from '../../shared/core/binding.ts'
import {
  encodeAnswer,
  encodeDecision,
  encodeWatched,
  withRequestId,
} from '../../shared/protocol/check-answer.ts'
import { encodeDenial } from '../../shared/protocol/denial.ts'
import {
  type HeaderChoice,
  writeRateLimitHeaders,
} from '../../shared/protocol/rate-limit-headers.ts'
import type { Clock } from '../../shared/runtime/clock.ts'
import type { Verdict } from './conclude.ts'
import type { NamedAsk } from './named-ask.ts'
import type { Decided } from './slot-group.ts'

/** How one answer is to look, by settings and the request's parameters. */
export interface AnswerForm {
  /** The status of a denial. 200 and 429 stand beside the answer's JSON; see `statusOf` for outages. */
  readonly denialStatus: 200 | 403 | 429
  readonly headers: HeaderChoice
}

/** What is the same in all answers of an enforcer. */
export interface AnswerContext {
  /** The region's name as JSON of ASCII alone, as all of an answer. */
  readonly regionJson: string
  readonly clock: Clock
  /** False once shutting down has begun. */
  readonly isRunning: () => boolean
}

/** What an answer is written to, apart from its body. */
export interface ReplyHead {
  header(name: string, value: string | number): unknown
  code(status: number): ReplyHead
}

const JSON_TYPE = 'application/json; charset=utf-8'
const PROBLEM_TYPE = 'application/problem+json; charset=utf-8'

/** Sets status and header fields of `reply`, and gives the body. */
export function answerOverHttp(
  reply: ReplyHead,
  { verdict, named }: { readonly verdict: Verdict; readonly named: NamedAsk },
  form: AnswerForm,
  context: AnswerContext,
): string {
  // Lets callers with a lasting connection move elsewhere before this one ends.
  if (!context.isRunning()) void reply.header('connection', 'close')
  const binding = bindingOf(verdict.decided)
  if (binding !== null) setRateLimitHeaders(reply, verdict, binding, form, context)
  const answer = encodeVerdict(verdict, named, context.regionJson)
  if (verdict.allowed || binding === null || form.denialStatus === 200) {
    void reply.header('content-type', JSON_TYPE)
    return answer
  }
  const status = statusOf(binding, form.denialStatus)
  const seconds = waitSeconds(binding.decision)
  if (seconds !== null) void reply.header('retry-after', seconds)
  void reply.code(status).header('content-type', PROBLEM_TYPE)
  return encodeDenial({ status, violated: violatedBy(verdict), binding: shown(binding), answer })
}

/** The JSON of a `CheckAnswer`; it says the request's id where the caller gave it, or needs it to release. */
export function encodeVerdict(verdict: Verdict, named: NamedAsk, regionJson: string): string {
  const { allowed, revision, degraded, decided, unlimited, unmatched } = verdict
  let decisions = ''
  let isTold = named.isCallersId
  for (const { limit, decision, position } of decided) {
    if (decisions !== '') decisions += ','
    decisions += encodeDecision(limit.template, decision, position)
    isTold ||= limit.limit.algorithm === 'concurrency'
  }
  const watched = verdict.watched.length === 0 ? '' : encodeAllWatched(verdict)
  const said = { allowed, regionJson, revision, degraded, decisions, watched, unlimited, unmatched }
  const answer = encodeAnswer(said)
  return isTold ? withRequestId(answer, named.ask.requestId, verdict.admittedAtUs) : answer
}

function encodeAllWatched({ watched }: Verdict): string {
  return watched
    .map(({ kind, limit, decision, position }) =>
      encodeWatched(kind, encodeDecision(limit.template, decision, position)),
    )
    .join(',')
}

function setRateLimitHeaders(
  reply: ReplyHead,
  verdict: Verdict,
  binding: Decided,
  form: AnswerForm,
  context: AnswerContext,
): void {
  const words = verdict.decided.map(({ limit }) => limit.words)
  const source = { words, binding: shown(binding), wallMs: context.clock.wallMs() }
  writeRateLimitHeaders(form.headers, source, (name, value) => void reply.header(name, value))
}

/**
 * A denial that only an outage explains is never called 429: nobody has exceeded anything. Where a gateway knows
 * no other refusal than 403 it stays 403.
 */
function statusOf(binding: Decided, denialStatus: 403 | 429): number {
  if (denialStatus === 403) return 403
  return binding.decision.reason === 'store_unavailable' ? 503 : 429
}

function violatedBy(verdict: Verdict): readonly string[] {
  const denying = verdict.decided.filter(({ decision }) => !decision.allowed)
  return [...new Set(denying.map(({ limit }) => limit.words.label))]
}

function shown({ limit, decision }: Decided) {
  return { words: limit.words, decision }
}
