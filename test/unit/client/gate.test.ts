import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { Gate, type GateOptions } from '../../../client/egress/gate.ts'

beforeEach(() => vi.useFakeTimers())
afterEach(() => vi.useRealTimers())

const aGate = (options: Partial<GateOptions> = {}): Gate =>
  new Gate({ perSecond: 10, burst: 10, concurrency: 100, queueMax: 100, ...options })

/** Lets `count` callers ask and records the instant at which each enters. */
function ask(gate: Gate, count: number, cost = 1): number[] {
  const enteredMs: number[] = []
  for (let caller = 0; caller < count; caller++) {
    void gate.enter(cost).then(() => enteredMs.push(performance.now()))
  }
  return enteredMs
}

describe('the gate', () => {
  it('lets a burst through at once and the rest at the rate, in any interval', async () => {
    const startMs = performance.now()
    const enteredMs = ask(aGate({ burst: 5 }), 25)
    await vi.advanceTimersByTimeAsync(2_100)
    const after = enteredMs.map((ms) => ms - startMs)
    expect(after).toHaveLength(25)
    expect(after.slice(0, 5)).toEqual([0, 0, 0, 0, 0])
    for (const [from, fromMs] of after.entries()) {
      for (const [to, toMs] of after.entries()) {
        const most = 5 + ((toMs - fromMs) * 10) / 1_000
        if (to >= from) expect(to - from + 1).toBeLessThanOrEqual(most + 1e-6)
      }
    }
  })

  it('never has more in flight than its cap, and lets the next in when one leaves', async () => {
    const gate = aGate({ concurrency: 2 })
    const enteredMs = ask(gate, 5)
    await vi.advanceTimersByTimeAsync(5_000)
    expect(enteredMs).toHaveLength(2)
    gate.leave()
    await vi.advanceTimersByTimeAsync(0)
    expect(enteredMs).toHaveLength(3)
    expect(gate.inFlight).toBe(2)
  })

  it('lets nobody in during a pause, and a shorter one does not end a longer one', async () => {
    const gate = aGate()
    gate.pause(1_000)
    gate.pause(10)
    const startMs = performance.now()
    const enteredMs = ask(gate, 1)
    await vi.advanceTimersByTimeAsync(5_000)
    expect(enteredMs.map((ms) => ms - startMs)).toEqual([1_000])
  })

  it('serves in order, so that a dear call is not starved by cheap ones', async () => {
    const gate = aGate()
    const order: string[] = []
    const enter = (name: string, cost: number) => gate.enter(cost).then(() => order.push(name))
    const all = [enter('first', 10), enter('dear', 10), enter('cheap', 1)]
    await vi.advanceTimersByTimeAsync(3_000)
    await Promise.all(all)
    expect(order).toEqual(['first', 'dear', 'cheap'])
  })

  it('refuses at once one more than may wait, and a cost that can never pass', async () => {
    const gate = aGate({ burst: 1, queueMax: 2 })
    ask(gate, 3)
    await expect(gate.enter(1)).rejects.toMatchObject({ code: 'EGRESS_QUEUE_FULL' })
    await expect(aGate().enter(11)).rejects.toMatchObject({ code: 'EGRESS_COST' })
    await expect(aGate().enter(0)).rejects.toMatchObject({ code: 'EGRESS_COST' })
    await expect(aGate().enter(Number.NaN)).rejects.toMatchObject({ code: 'EGRESS_COST' })
  })

  it('forgets a caller that gives up, and spends nothing on it', async () => {
    const gate = aGate({ burst: 2 })
    ask(gate, 2)
    const abort = new AbortController()
    const given = gate.enter(2, abort.signal)
    const enteredMs = ask(gate, 1)
    const startMs = performance.now()
    abort.abort(new Error('gave up'))
    await expect(given).rejects.toThrow('gave up')
    await vi.advanceTimersByTimeAsync(1_000)
    expect(enteredMs.map((ms) => ms - startMs)).toEqual([100])
    expect(gate.waiting).toBe(0)
    await expect(gate.enter(1, abort.signal)).rejects.toThrow('gave up')
  })

  it('keeps no timer for nobody', async () => {
    const gate = aGate({ burst: 1 })
    ask(gate, 1)
    const abort = new AbortController()
    const given = gate.enter(1, abort.signal).catch(() => {})
    expect(vi.getTimerCount()).toBe(1)
    abort.abort()
    await given
    expect(vi.getTimerCount()).toBe(0)
  })
})
