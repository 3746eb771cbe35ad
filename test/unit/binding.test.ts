import { describe, expect, it } from 'vitest'
import { bindingOf, resetSeconds, waitSeconds } from '../../shared/core/binding.ts'
import { type Decision, decideWithoutStore } from '../../shared/core/decision.ts'

const allowed = (remaining: number): Decision => ({
  allowed: true,
  reason: null,
  remaining,
  resetMs: 700,
  retryAfterMs: null,
})
const denied = (retryAfterMs: number | null): Decision => ({
  ...allowed(0),
  allowed: false,
  reason: 'limit',
  retryAfterMs,
})
const never: Decision = { ...denied(null), reason: 'cost_exceeds_capacity' }

function binding(...decisions: readonly Decision[]): number | undefined {
  return bindingOf(decisions.map((decision, position) => ({ decision, position })))?.position
}

describe('the binding decision', () => {
  it.each([
    ['the one that leaves least while all allow', [allowed(5), allowed(2), allowed(9)], 1],
    ['the first of equals', [allowed(2), allowed(2)], 0],
    ['the one that denied, however little others have left (B065)', [allowed(0), denied(100)], 1],
    ['of two denials the longer wait (B065)', [denied(20_000), denied(3_600_000)], 1],
    ['before any wait what waiting never mends', [denied(3_600_000), never], 1],
    ['last what nobody could decide', [decideWithoutStore('allow'), allowed(1_000)], 1],
  ])('is %s', (_guarantee, decisions, expected) => {
    expect(binding(...decisions)).toBe(expected)
  })

  it('is none without decisions', () => {
    expect(bindingOf([])).toBeNull()
  })
})

describe('the wait that a denied caller is told', () => {
  it.each([
    [0.2, 1],
    [1, 1],
    [500, 1],
    [999, 1],
    [1_000, 1],
    [1_001, 2],
  ])(
    'after %d ms inside is %d whole seconds, never 0 and never too early (B058)',
    (ms, seconds) => {
      expect(waitSeconds(denied(ms))).toBe(seconds)
      expect(resetSeconds(denied(ms))).toBe(seconds)
    },
  )

  it('is a second while the region has no share yet, or cannot decide', () => {
    expect(waitSeconds(denied(null))).toBe(1)
    expect(waitSeconds(decideWithoutStore('deny'))).toBe(1)
  })

  it('is none where waiting never helps (B034)', () => {
    expect(waitSeconds(never)).toBeNull()
    expect(waitSeconds(allowed(0))).toBeNull()
  })
})
