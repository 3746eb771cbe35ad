import { retryAfterSeconds } from '../shared/protocol/check-answer.ts'
import type { Answer } from './answers.ts'

/** A problem document (RFC 9457) with the policies that denied. */
export interface DenialProblem {
  readonly type: 'about:blank'
  readonly title: 'Too Many Requests'
  readonly status: 429
  readonly detail: string
  readonly 'violated-policies': readonly string[]
}

export interface Denial {
  readonly headers: Readonly<Record<string, string>>
  readonly problem: DenialProblem
}

/** What a server answers its own caller whom the plane denied. */
export function denialOf(answer: Answer): Denial {
  const denied = answer.decisions.filter((decision) => !decision.allowed)
  // Without a decision the client itself denied, because no enforcer answered.
  const seconds = denied.length === 0 ? 1 : retryAfterSeconds(denied.map(asDecision))
  return {
    headers: {
      ...answer.headers,
      'content-type': 'application/problem+json',
      ...(seconds !== null && { 'retry-after': String(seconds) }),
    },
    problem: {
      type: 'about:blank',
      title: 'Too Many Requests',
      status: 429,
      detail: detailOf(denied, seconds),
      'violated-policies': denied.map(({ policy, limitName }) => `${policy}/${limitName}`),
    },
  }
}

function asDecision(
  decision: Answer['decisions'][number],
): Parameters<typeof retryAfterSeconds>[0][number] {
  const { allowed, reason = null, remaining, resetMs, retryAfterMs } = decision
  return { allowed, reason, remaining, resetMs, retryAfterMs }
}

function detailOf(denied: Answer['decisions'], seconds: number | null): string {
  if (denied.length === 0) return 'The rate limiter is not available. Retry in a moment.'
  if (denied.some(({ reason }) => reason === 'deny_all')) {
    return 'A policy denies every request. Retrying does not help.'
  }
  if (seconds === null) return 'This request costs more than the limit ever admits at once.'
  return `Too many requests. Retry in ${seconds} second${seconds === 1 ? '' : 's'}.`
}
