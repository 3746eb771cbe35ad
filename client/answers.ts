import type { CheckAnswer } from '../shared/protocol/check-answer.ts'
import { QuotaClientError } from './quota-error.ts'

/** The rate limit headers of the enforcer's answer, lower-case names, to hand on to one's own caller. */
export type LimitHeaders = Readonly<Record<string, string>>

export interface Answer extends CheckAnswer {
  /**
   * `lease`: tokens that an enforcer had granted this client ahead. `client`: no enforcer answered, and
   * `onUnavailable` decided.
   */
  readonly decidedBy: 'enforcer' | 'lease' | 'client'
  readonly headers: LimitHeaders
}

/** Longest part of a refusal that is repeated in a message. */
const DETAIL_CHARS_MAX = 500

const LIMIT_HEADERS = /^(x-)?ratelimit(-|$)/

/** Keeps a proxy's page or another service's JSON from being taken for a decision. */
export function parseAnswer(body: unknown): CheckAnswer {
  if (isRecord(body) && typeof body['allowed'] === 'boolean' && Array.isArray(body['decisions'])) {
    // The enforcer's own format; the two fields that callers decide by were looked at.
    return body as unknown as CheckAnswer
  }
  throw new QuotaClientError(
    'QUOTA_CLIENT_UNAVAILABLE',
    'the answer is not an enforcer’s: is the url right?',
  )
}

export function limitHeaders(headers: Readonly<Record<string, unknown>>): LimitHeaders {
  const found = Object.entries(headers).filter(([name]) => LIMIT_HEADERS.test(name))
  return Object.fromEntries(found.map(([name, value]) => [name, String(value)]))
}

/** What a refused caller did wrong, from the enforcer's problem document. */
export function refusalOf(status: number, body: unknown): QuotaClientError {
  const detail = isRecord(body) && typeof body['detail'] === 'string' ? body['detail'] : ''
  const fields = isRecord(body) && Array.isArray(body['errors']) ? body['errors'].map(describe) : []
  const text = [detail, ...fields].filter((part) => part !== '').join('; ')
  const message = `the enforcer answered ${status}: ${text.slice(0, DETAIL_CHARS_MAX)}`
  return new QuotaClientError('QUOTA_CLIENT_INVALID', message)
}

function describe(error: unknown): string {
  if (!isRecord(error)) return ''
  const fix = typeof error['fix'] === 'string' ? ` (${error['fix']})` : ''
  return `${String(error['field'])} ${String(error['message'])}${fix}`
}

export function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
