import { describe, expect, it } from 'vitest'
import type { Decision } from '../../shared/core/decision.ts'
import {
  decisionTemplate,
  encodeAnswer,
  encodeDecision,
} from '../../shared/protocol/check-answer.ts'
import { aRegionPolicy } from '../support/region-policy.ts'

const allowed: Decision = {
  allowed: true,
  reason: null,
  remaining: 4,
  resetMs: 700,
  retryAfterMs: null,
}
const denied = (retryAfterMs: number | null): Decision => ({
  ...allowed,
  allowed: false,
  reason: 'limit',
  retryAfterMs,
})

function encoded(decision: Decision): string {
  const policy = aRegionPolicy({ domain: 'a"\\\n', name: 'tenants' })
  const [limit] = policy.limits
  if (limit === undefined) throw new Error('a limit')
  return encodeDecision(decisionTemplate(policy, { ...limit, capacity: 10 }), decision, 3)
}

describe('the answer of a check', () => {
  it('is JSON with its fields in the documented order', () => {
    const text = encodeAnswer({
      allowed: true,
      regionJson: '"us-east-1"',
      revision: 12,
      degraded: false,
      decisions: encoded(allowed),
      unmatched: false,
    })
    const answer = JSON.parse(text)
    expect(answer).toEqual({
      allowed: true,
      region: 'us-east-1',
      revision: 12,
      degraded: false,
      decisions: [
        {
          policy: 'a"\\\n/tenants',
          allowed: true,
          limit: 10,
          windowMs: 1_000,
          remaining: 4,
          resetMs: 700,
          retryAfterMs: null,
          limitName: 'per-second',
          descriptor: 3,
        },
      ],
    })
    expect(JSON.stringify(answer)).toBe(text)
  })

  it('gives a reason on a denial, and null for what nobody knows', () => {
    expect(JSON.parse(encoded(denied(5)))).toMatchObject({
      allowed: false,
      retryAfterMs: 5,
      reason: 'limit',
    })
    const unknown = {
      ...allowed,
      reason: 'store_unavailable' as const,
      remaining: null,
      resetMs: null,
    }
    expect(JSON.parse(encoded(unknown))).toMatchObject({
      remaining: null,
      resetMs: null,
      reason: 'store_unavailable',
    })
  })

  it('says when nothing matched', () => {
    const base = { allowed: true, regionJson: '"r"', revision: 0, degraded: false, decisions: '' }
    expect(JSON.parse(encodeAnswer({ ...base, unmatched: true }))).toMatchObject({
      decisions: [],
      unmatched: true,
    })
    expect(encodeAnswer({ ...base, unmatched: false })).not.toContain('unmatched')
  })
})
