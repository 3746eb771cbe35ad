import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { Deadlines } from '../../../shared/redis/deadlines.ts'

let nowMs: number
let expired: string[]
let stalls: number[]
let deadlines: Deadlines<string>

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'setImmediate'] })
  nowMs = 0
  vi.spyOn(performance, 'now').mockImplementation(() => nowMs)
  expired = []
  stalls = []
  deadlines = new Deadlines<string>({
    afterMs: 2,
    expire: (item) => expired.push(item),
    onStall: (lateMs) => stalls.push(lateMs),
  })
})
afterEach(() => {
  vi.useRealTimers()
  vi.restoreAllMocks()
})

/** Time passes and the event loop turns, a millisecond each. */
function pass(ms: number): void {
  for (let turn = 0; turn < ms; turn++) {
    nowMs += 1
    vi.advanceTimersByTime(1)
  }
}

/** Time passes and the event loop does not turn. */
function stall(ms: number): void {
  nowMs += ms
}

describe('a call to Redis', () => {
  it('is overdue after the deadline, and not before', () => {
    deadlines.start('one')
    pass(1)
    expect(expired).toEqual([])
    pass(3)
    expect(expired).toEqual(['one'])
    expect(deadlines.end('one')).toBe(false)
  })

  it('that was answered in time is never overdue', () => {
    deadlines.start('one')
    expect(deadlines.end('one')).toBe(true)
    pass(10)
    expect(expired).toEqual([])
  })

  it('waits on while Redis answers others, up to four times as long', () => {
    deadlines.start('one')
    for (let turn = 0; turn < 7; turn++) {
      pass(1)
      deadlines.heard()
    }
    expect(expired).toEqual([])
    for (let turn = 0; turn < 3; turn++) {
      pass(1)
      deadlines.heard()
    }
    expect(expired).toEqual(['one'])
  })

  it('is overdue on its own time where Redis answers nobody', () => {
    deadlines.start('one')
    pass(1)
    deadlines.start('two')
    pass(2)
    expect(expired).toEqual(['one'])
    pass(2)
    expect(expired).toEqual(['one', 'two'])
  })

  it('gets its time anew, once, after a stall of this process, which is told apart (B106)', () => {
    deadlines.start('one')
    stall(50)
    pass(2)
    expect(expired).toEqual([])
    expect(stalls).toEqual([expect.closeTo(50, -1)])
    stall(50)
    pass(4)
    expect(expired).toEqual(['one'])
  })
})
