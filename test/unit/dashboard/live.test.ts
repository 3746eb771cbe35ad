import { describe, expect, it } from 'vitest'
import { EventReader } from '../../../services/dashboard/src/data/event-reader.ts'
import {
  NOTHING_LIVE,
  ratesOf,
  withEvent,
} from '../../../services/dashboard/src/data/live-state.ts'
import { auditOf, heardAgeMs, isSilent } from '../../../services/dashboard/src/data/sums.ts'
import type { LagsReply } from '../../../shared/protocol/reading-replies.ts'
import type { StreamLimitUsage } from '../../../shared/protocol/stream-events.ts'

describe('reading a stream of events', () => {
  const TEXT =
    'retry: 2000\n\nid: g-1\nevent: regions\ndata: {"a":1}\n\n: alive\n\nid: g-2\nevent: usage\ndata: {"b":"x: y"}\n\n'

  it('gives the same events wherever the text is cut', () => {
    const whole = new EventReader().take(TEXT)
    expect(whole).toEqual([
      { name: 'regions', data: '{"a":1}', id: 'g-1' },
      { name: 'usage', data: '{"b":"x: y"}', id: 'g-2' },
    ])
    for (let at = 0; at <= TEXT.length; at++) {
      const reader = new EventReader()
      const cut = [...reader.take(TEXT.slice(0, at)), ...reader.take(TEXT.slice(at))]
      expect(cut).toEqual(whole)
    }
  })

  it('gives up an event that has no end', () => {
    const reader = new EventReader()
    expect(() => {
      for (let i = 0; i < 140; i++) reader.take('x'.repeat(1_000_000))
    }).toThrow('too long')
  })
})

const limit = (limitId: number, ...keys: string[]) => ({
  limitId,
  keys: keys.map((key) => ({ key })),
})

describe('the live state', () => {
  it('takes a limit in, replaces it, and forgets it once it has no hot key', () => {
    let state = withEvent(NOTHING_LIVE, 'shares', { limits: [limit(1, 'a'), limit(2, 'b')] }, 10)
    state = withEvent(state, 'shares', { limits: [limit(1, 'c')] }, 20)
    expect(state.shares.get(1)?.keys[0]?.key).toBe('c')
    state = withEvent(state, 'shares', { limits: [limit(2)] }, 30)
    expect([...state.shares.keys()]).toEqual([1])
    expect(state).toMatchObject({ atMs: 30, by: 'stream', problem: null })
  })

  it('says that nothing is admitted any more once usage has not been told for seconds', () => {
    const seconds = [{ isRunning: false, regions: [{ region: 'eu', admitted: 5, denied: 1 }] }]
    const busy = withEvent(NOTHING_LIVE, 'usage', { limits: [{ seconds }] }, 1_000)
    expect(withEvent(busy, 'regions', { regions: [] }, 3_000).rates.get('eu')?.admitted).toBe(5)
    expect(withEvent(busy, 'regions', { regions: [] }, 5_000).rates.size).toBe(0)
  })

  it('is not changed by an event that it does not know', () => {
    expect(withEvent(NOTHING_LIVE, 'something', {}, 10)).toBe(NOTHING_LIVE)
  })

  it('counts the newest second that has ended, of every limit', () => {
    const second = (admitted: number, isRunning: boolean) => ({
      isRunning,
      regions: [{ region: 'eu', admitted, denied: 0 }],
    })
    const limits = [
      { seconds: [second(1, false), second(20, false), second(3, true)] },
      { seconds: [second(7, true), second(9, true)] },
    ] as unknown as StreamLimitUsage[]
    expect(ratesOf(limits).get('eu')?.admitted).toBe(27)
  })
})

describe('a region that is cut off', () => {
  const cutShownAfterMs = (heardBeforeMs: number, phaseMs: number): number => {
    // An event each second tells the age; between two of them the page counts on by itself.
    for (let nowMs = 0; ; nowMs += 50) {
      const eventMs = Math.floor((nowMs - phaseMs) / 1_000) * 1_000 + phaseMs
      const told = { ageMs: Math.max(0, eventMs + heardBeforeMs) }
      if (isSilent(heardAgeMs(told, { atMs: eventMs }, nowMs))) return nowMs
    }
  }

  it('shows as cut within three seconds, whenever it was cut and events come', () => {
    for (let phaseMs = 0; phaseMs < 1_000; phaseMs += 50) {
      for (let heard = 0; heard < 1_000; heard += 50) {
        const shown = cutShownAfterMs(heard, phaseMs)
        expect(shown).toBeLessThanOrEqual(2_750)
        // And not while it speaks each second.
        expect(shown + heard).toBeGreaterThan(2_000)
      }
    }
  })

  it('is not taken for cut because the page itself hears nothing', () => {
    expect(isSilent(heardAgeMs({ ageMs: 900 }, { atMs: 0 }, 60_000))).toBe(false)
    expect(isSilent(heardAgeMs({ ageMs: null }, { atMs: 0 }, 0))).toBe(true)
  })
})

describe('the meter of over-admission', () => {
  const region = (audit: object | null) => ({ audit }) as LagsReply['regions'][number]

  it('shows the worst that any daemon found, and nothing while none was heard', () => {
    expect(auditOf([region(null)])).toBeNull()
    const found = [
      region({ overAdmitted: 0, alarms: 2 }),
      region(null),
      region({ overAdmitted: 3, alarms: 0 }),
    ]
    expect(auditOf(found)).toEqual({ overAdmitted: 3, alarms: 2, by: 2 })
  })
})
