import { describe, expect, it } from 'vitest'
import { PROVIDER_WAIT_MS_MAX, providerWaitMs } from '../../../client/egress/provider-wait.ts'

const NOW_MS = Date.UTC(2026, 10, 30, 12)

const waitOf = (status: number, headers: Record<string, string>): number | null =>
  providerWaitMs(status, new Headers(headers), NOW_MS)

describe('the wait that a provider asks for', () => {
  it('is its Retry-After in seconds or as a date, on a 429 and a 503 alone', () => {
    expect(waitOf(429, { 'retry-after': '7' })).toBe(7_000)
    expect(waitOf(503, { 'retry-after': ' 0.5 ' })).toBe(500)
    expect(waitOf(429, { 'retry-after': 'Mon, 30 Nov 2026 12:00:30 GMT' })).toBe(30_000)
    expect(waitOf(301, { 'retry-after': '7' })).toBeNull()
  })

  it('is never negative, and bounded whatever the provider writes', () => {
    expect(waitOf(429, { 'retry-after': 'Mon, 30 Nov 2026 11:00:00 GMT' })).toBe(0)
    expect(waitOf(429, { 'retry-after': '99999999999999' })).toBe(PROVIDER_WAIT_MS_MAX)
  })

  it('is none where the header cannot be read', () => {
    for (const text of ['soon', '', '-5', '1e9']) {
      expect(waitOf(429, { 'retry-after': text })).toBeNull()
    }
  })

  it('is the reset of a quota that is used up, also on a success', () => {
    expect(waitOf(200, { ratelimit: '"default";r=0;t=30' })).toBe(30_000)
    expect(waitOf(200, { ratelimit: '"a";r=0;t=5, "b";r=0;t=60, "c";r=9;t=900' })).toBe(60_000)
    expect(waitOf(200, { 'ratelimit-remaining': '0', 'ratelimit-reset': '12' })).toBe(12_000)
    expect(waitOf(200, { 'x-ratelimit-remaining': '0', 'x-ratelimit-reset': '3' })).toBe(3_000)
  })

  it('reads a reset as an instant where it can be no number of seconds', () => {
    const reset = String(NOW_MS / 1_000 + 20)
    expect(waitOf(200, { 'x-ratelimit-remaining': '0', 'x-ratelimit-reset': reset })).toBe(20_000)
  })

  it('is none while something remains', () => {
    expect(waitOf(200, { ratelimit: '"default";r=1;t=30' })).toBeNull()
    expect(waitOf(200, { 'ratelimit-remaining': '3', 'ratelimit-reset': '12' })).toBeNull()
    expect(waitOf(200, {})).toBeNull()
  })
})
