import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { assert } from '../../../shared/core/assert.ts'
import { type EveryOptions, every, type Loop } from '../../../shared/runtime/every.ts'
import { createLogger } from '../../../shared/runtime/logger.ts'

const log = createLogger({ service: 'test', level: 'silent' })
const warn = vi.spyOn(log, 'warn')
const loops: Loop[] = []

function loop(
  step: (signal: AbortSignal) => Promise<void>,
  options: Partial<EveryOptions> = {},
): Loop {
  const started = every(
    {
      name: 'test',
      intervalMs: 100,
      jitter: 0,
      timeoutMs: 1_000,
      log,
      onBug: () => {},
      ...options,
    },
    step,
  )
  loops.push(started)
  return started
}

/** A step that ends when told to. */
function heldStep() {
  const releases: (() => void)[] = []
  const step = vi.fn(() => new Promise<void>((resolve) => releases.push(resolve)))
  return { step, release: () => releases.shift()?.() }
}

describe('every', () => {
  beforeEach(() => {
    vi.useFakeTimers()
    warn.mockClear()
  })
  afterEach(async () => {
    await Promise.all(loops.splice(0).map((started) => started.stop()))
    vi.useRealTimers()
  })

  it('runs a step each interval, counted from the end of the one before', async () => {
    const { step, release } = heldStep()
    loop(step)
    await vi.advanceTimersByTimeAsync(99)
    expect(step).toHaveBeenCalledTimes(0)
    await vi.advanceTimersByTimeAsync(1)
    expect(step).toHaveBeenCalledTimes(1)
    await vi.advanceTimersByTimeAsync(500)
    expect(step).toHaveBeenCalledTimes(1)
    release()
    await vi.advanceTimersByTimeAsync(99)
    expect(step).toHaveBeenCalledTimes(1)
    await vi.advanceTimersByTimeAsync(1)
    expect(step).toHaveBeenCalledTimes(2)
    release()
  })

  it('stretches each wait by at most the jitter', async () => {
    const step = vi.fn(async () => {})
    loop(step, { jitter: 0.5 })
    await vi.advanceTimersByTimeAsync(99)
    expect(step).toHaveBeenCalledTimes(0)
    await vi.advanceTimersByTimeAsync(51)
    expect(step).toHaveBeenCalledTimes(1)
  })

  it('runs at once when woken while waiting, however often it is woken', async () => {
    const step = vi.fn(async () => {})
    const started = loop(step)
    started.wake()
    started.wake()
    await vi.advanceTimersByTimeAsync(1)
    expect(step).toHaveBeenCalledTimes(1)
    await vi.advanceTimersByTimeAsync(98)
    expect(step).toHaveBeenCalledTimes(1)
  })

  it('is not put off by being woken again and again', async () => {
    vi.useRealTimers()
    const step = vi.fn(async () => {})
    const started = loop(step, { intervalMs: 60_000 })
    const begunMs = performance.now()
    while (step.mock.calls.length === 0 && performance.now() - begunMs < 2_000) {
      started.wake()
      await new Promise((resolve) => setImmediate(resolve))
    }
    expect(step).toHaveBeenCalled()
  })

  it('folds wakes during a step into one step right after it', async () => {
    const { step, release } = heldStep()
    const started = loop(step)
    await vi.advanceTimersByTimeAsync(100)
    started.wake()
    started.wake()
    release()
    await vi.advanceTimersByTimeAsync(1)
    expect(step).toHaveBeenCalledTimes(2)
    release()
    await vi.advanceTimersByTimeAsync(99)
    expect(step).toHaveBeenCalledTimes(2)
  })

  it('goes on after a failure, and counts it', async () => {
    const step = vi.fn(async () => {
      throw new Error('away')
    })
    const started = loop(step)
    await vi.advanceTimersByTimeAsync(300)
    expect(started.stats).toMatchObject({ runs: 3, failures: 3 })
  })

  it('says that it fails a bounded number of times, and that it works again once', async () => {
    const info = vi.spyOn(log, 'info')
    let isAway = true
    loop(async () => {
      if (isAway) throw new Error('away')
    })
    await vi.advanceTimersByTimeAsync(60_000)
    expect(warn.mock.calls.length).toBeLessThanOrEqual(6)
    expect(warn.mock.calls[1]?.[0]).toMatchObject({ suppressed: 99 })
    isAway = false
    await vi.advanceTimersByTimeAsync(5_000)
    expect(info).toHaveBeenCalledTimes(1)
    info.mockRestore()
  })

  it('stops on a broken assertion and hands it over', async () => {
    const onBug = vi.fn()
    const step = vi.fn(async () => assert(1 > 2, 'one is more than two'))
    const started = loop(step, { onBug })
    await vi.advanceTimersByTimeAsync(1_000)
    expect(step).toHaveBeenCalledTimes(1)
    expect(onBug).toHaveBeenCalledExactlyOnceWith(
      expect.objectContaining({ message: 'one is more than two' }),
    )
    started.wake()
    await vi.advanceTimersByTimeAsync(1_000)
    expect(step).toHaveBeenCalledTimes(1)
  })

  it('aborts a step that outlasts its time-out', async () => {
    const started = loop(
      (signal) =>
        new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason))),
      { timeoutMs: 50 },
    )
    await vi.advanceTimersByTimeAsync(150)
    expect(started.stats.failures).toBe(1)
    expect(warn.mock.calls[0]?.[0]).toMatchObject({
      err: { message: 'test took longer than 50 ms' },
    })
  })

  it('waits in stop for the step under way, which it aborts, and runs none after', async () => {
    const events: string[] = []
    const started = loop(
      (signal) =>
        new Promise((resolve) => {
          events.push('begun')
          signal.addEventListener('abort', () => setTimeout(() => resolve(), 10))
        }),
    )
    await vi.advanceTimersByTimeAsync(100)
    const stopped = started.stop().then(() => events.push('stopped'))
    await vi.advanceTimersByTimeAsync(9)
    expect(events).toEqual(['begun'])
    await vi.advanceTimersByTimeAsync(1)
    await stopped
    started.wake()
    await vi.advanceTimersByTimeAsync(1_000)
    expect(events).toEqual(['begun', 'stopped'])
    expect(vi.getTimerCount()).toBe(0)
  })

  it('never runs a step when stopped before the first', async () => {
    const step = vi.fn(async () => {})
    await loop(step).stop()
    await vi.advanceTimersByTimeAsync(1_000)
    expect(step).not.toHaveBeenCalled()
  })
})
