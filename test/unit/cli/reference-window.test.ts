import { describe, expect, it } from 'vitest'
import type { CheckRecord } from '../../../services/cli/demo/check-record.ts'
import { windowExcess } from '../../../services/cli/demo/reference-window.ts'

const RULE = { capacity: 5, windowMs: 10_000 }
const ORIGIN = 1_700_000_000_000 // A multiple of the window.

function admissions(count: number, sentMs: number, receivedMs = sentMs + 2): CheckRecord[] {
  return Array.from({ length: count }, () => ({
    region: 0,
    client: 'a',
    sentMs,
    receivedMs,
    outcome: 'admitted',
  }))
}

describe('the reference window', () => {
  it('accepts a full window followed by a full window', () => {
    const both = [...admissions(5, 9_000), ...admissions(5, 11_000)]
    expect(windowExcess(both, RULE, ORIGIN)).toBe(0)
  })

  it('reports each token beyond the capacity of one window', () => {
    const spread = [...admissions(5, 1_000), ...admissions(3, 9_000)]
    expect(windowExcess(spread, RULE, ORIGIN)).toBe(3)
  })

  it('gives checks across the edge of a window, or within the clock skew of it, the benefit of doubt', () => {
    const across = [...admissions(5, 9_000), ...admissions(4, 9_990, 10_010)]
    const near = [...admissions(5, 9_000), ...admissions(4, 9_960, 9_970)]
    expect(windowExcess(across, RULE, ORIGIN)).toBe(0)
    expect(windowExcess(near, RULE, ORIGIN)).toBe(0)
  })
})
