import { describe, expect, it } from 'vitest'
import type { Answer } from '../../../client/answers.ts'
import { denialOf } from '../../../client/denial.ts'

type Decided = Answer['decisions'][number]

/** What a server's caller is told of one denied limit. */
function told(reason: NonNullable<Decided['reason']>, retryAfterMs: number | null) {
  const numbers = { limit: 10, windowMs: 1_000, remaining: 0, resetMs: 1_000, retryAfterMs }
  const names = { policy: 'api/p', limitName: 'l', descriptor: 0 }
  const decisions = [{ ...names, ...numbers, allowed: false, reason }]
  const plane = { region: 'r', revision: 1, degraded: false, headers: {} }
  return denialOf({ ...plane, allowed: false, decisions, decidedBy: 'enforcer' })
}

describe('a denial that a server passes on', () => {
  it('says when to come back, never too early', () => {
    const { headers, problem } = told('limit', 1_001)
    expect(headers['retry-after']).toBe('2')
    expect(problem.detail).toBe('Too many requests. Retry in 2 seconds.')
  })

  it('says of a policy that denies everything that retrying does not help', () => {
    const { headers, problem } = told('deny_all', null)
    expect(headers['retry-after']).toBeUndefined()
    expect(problem.detail).toContain('denies every request')
  })

  it('says of a cost that never passes that it is the cost', () => {
    const { headers, problem } = told('cost_exceeds_capacity', null)
    expect(headers['retry-after']).toBeUndefined()
    expect(problem.detail).toContain('costs more')
  })
})
