/** The problem document (RFC 9457) of a denied check, by the problem types of the rate limit header fields' draft. */
import { waitSeconds } from '../core/binding.ts'
import type { Decision } from '../core/decision.ts'
import type { LimitWords } from './limit-words.ts'

const TYPES = 'https://iana.org/assignments/http-problem-types#'

const EXCEEDED = {
  type: `${TYPES}quota-exceeded`,
  title: 'Request cannot be satisfied as assigned quota has been exceeded',
} as const

const REDUCED = {
  type: `${TYPES}temporary-reduced-capacity`,
  title: 'Request cannot be satisfied due to temporary server capacity constraints',
} as const

export interface Denial {
  readonly status: number
  /** Labels of the limits that denied. */
  readonly violated: readonly string[]
  readonly binding: { readonly words: LimitWords; readonly decision: Decision }
  /** The JSON of the `CheckAnswer`; its members become members of the problem. */
  readonly answer: string
}

/** The document's JSON. */
export function encodeDenial(denial: Denial): string {
  const { decision, words } = denial.binding
  const problem = {
    ...(decision.reason === 'store_unavailable' ? REDUCED : EXCEEDED),
    status: denial.status,
    detail: explainDenial(decision, words),
    'violated-policies': denial.violated,
  }
  return `${JSON.stringify(problem).slice(0, -1)},${denial.answer.slice(1)}`
}

/** What a person needs to know of a denial: which quota, and what to do about it. */
export function explainDenial(decision: Decision, words: LimitWords): string {
  const { label, quota } = words
  if (decision.reason === 'cost_exceeds_capacity') {
    return `The cost is more than the ${label} quota of ${quota} ever admits at once. Send a lower cost.`
  }
  if (decision.reason === 'deny_all') {
    return `The ${label} policy denies every request. Retrying does not help.`
  }
  const retry = `Retry in ${spell(waitSeconds(decision) ?? 1)}.`
  if (decision.reason === 'store_unavailable') {
    return `The ${label} quota of ${quota} cannot be checked at present, and its policy denies meanwhile. ${retry}`
  }
  return `${label} quota of ${quota} exceeded. ${retry}`
}

function spell(seconds: number): string {
  return seconds === 1 ? '1 second' : `${seconds} seconds`
}
