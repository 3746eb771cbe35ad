/**
 * The header fields that tell a caller its quota: those of draft-ietf-httpapi-ratelimit-headers-11, the three of its
 * early drafts, and the usual `X-RateLimit-*`.
 *
 * Put together by hand, since they are written on each check; a test reads them with a structured-field parser.
 */
import { resetSeconds } from '../core/binding.ts'
import type { Decision } from '../core/decision.ts'
import { fieldInteger, type LimitWords } from './limit-words.ts'

/** Which header fields to send. */
export interface HeaderChoice {
  /** `RateLimit-Policy` and `RateLimit`. */
  readonly draft: boolean
  /** `RateLimit-Limit`, `RateLimit-Remaining` and `RateLimit-Reset`. */
  readonly triple: boolean
  /** `X-RateLimit-*`, its reset in seconds from now or since the Unix epoch. */
  readonly x: 'seconds' | 'epoch' | null
}

/** Only the draft's own fields, which no other limiter on the way writes. */
export const DRAFT_HEADERS: HeaderChoice = { draft: true, triple: false, x: null }

/** What a setting or a parameter may name, separated by commas. */
export const HEADER_FAMILIES = [
  'draft',
  'ratelimit',
  'x-ratelimit',
  'x-ratelimit-epoch',
  'none',
] as const

const KNOWN: readonly string[] = HEADER_FAMILIES

/** The choice that `text` names; null when it names something unknown, or two things that exclude each other. */
export function parseHeaderChoice(text: string): HeaderChoice | null {
  const names = text.split(',').map((name) => name.trim())
  if (names.some((name) => !KNOWN.includes(name))) return null
  if (names.includes('none') && names.length > 1) return null
  const isEpoch = names.includes('x-ratelimit-epoch')
  if (isEpoch && names.includes('x-ratelimit')) return null
  return {
    draft: names.includes('draft'),
    triple: names.includes('ratelimit'),
    x: isEpoch ? 'epoch' : names.includes('x-ratelimit') ? 'seconds' : null,
  }
}

/** What the fields of one answer are made of. */
export interface HeaderSource {
  /** Every limit that had a say, in the order of the request. */
  readonly words: readonly LimitWords[]
  /** The limit that binds, and what it said. */
  readonly binding: { readonly words: LimitWords; readonly decision: Decision }
  readonly wallMs: number
}

type Write = (name: string, value: string) => void

/**
 * Hands each chosen field to `write`. What nobody knows is left out: without the store's decision only
 * `RateLimit-Policy` and the limit are said.
 */
export function writeRateLimitHeaders(
  choice: HeaderChoice,
  source: HeaderSource,
  write: Write,
): void {
  const { words, decision } = source.binding
  const reset = resetSeconds(decision)
  if (choice.draft) {
    write('ratelimit-policy', joinPolicies(source.words))
    if (decision.remaining !== null && reset !== null) {
      write('ratelimit', `${words.quotedLabel};r=${fieldInteger(decision.remaining)};t=${reset}`)
    }
  }
  if (choice.triple) writeThree('ratelimit', source, reset, write)
  if (choice.x === null) return
  const xReset = choice.x === 'seconds' ? reset : resetEpoch(decision, source.wallMs)
  writeThree('x-ratelimit', source, xReset, write)
}

function writeThree(
  prefix: string,
  { binding }: HeaderSource,
  reset: number | null,
  write: Write,
): void {
  const { remaining } = binding.decision
  write(`${prefix}-limit`, String(binding.words.capacity))
  if (remaining !== null) write(`${prefix}-remaining`, String(remaining))
  if (reset !== null) write(`${prefix}-reset`, String(reset))
}

function joinPolicies(words: readonly LimitWords[]): string {
  const [only] = words
  if (only !== undefined && words.length === 1) return only.policyItem
  // Two descriptors may meet the same limit.
  return [...new Set(words.map(({ policyItem }) => policyItem))].join(', ')
}

/** Rounded once, from milliseconds, so that the instant stays where it is while it comes nearer. */
function resetEpoch(decision: Decision, wallMs: number): number | null {
  const untilMs = decision.allowed ? decision.resetMs : (decision.retryAfterMs ?? decision.resetMs)
  return untilMs === null ? null : Math.ceil((wallMs + untilMs) / 1_000)
}
