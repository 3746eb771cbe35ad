import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { createLifecycle, runService } from '../../../shared/runtime/lifecycle.ts'
import { createLogger } from '../../../shared/runtime/logger.ts'

const log = createLogger({ service: 'test', level: 'silent' })
const never = (): Promise<void> => new Promise(() => {})

describe('createLifecycle', () => {
  it('closes in reverse order and one after the other', async () => {
    const life = createLifecycle({ log, deadlineMs: 1_000 })
    const closed: string[] = []
    for (const name of ['redis', 'loop', 'listener']) {
      await life.acquire(
        name,
        () => name,
        async (value) => {
          await new Promise((resolve) => setImmediate(resolve))
          closed.push(value)
        },
      )
    }
    expect(await life.shutdown()).toEqual([])
    expect(closed).toEqual(['listener', 'loop', 'redis'])
  })

  it('says at once that it is not running, and shuts down once for all callers', async () => {
    const life = createLifecycle({ log, deadlineMs: 1_000 })
    const close = vi.fn()
    await life.acquire('redis', () => 1, close)
    expect(life.isRunning()).toBe(true)
    const first = life.shutdown()
    expect(life.isRunning()).toBe(false)
    await Promise.all([first, life.shutdown()])
    expect(close).toHaveBeenCalledTimes(1)
  })

  it('goes on closing after a closer failed', async () => {
    const life = createLifecycle({ log, deadlineMs: 1_000 })
    const close = vi.fn()
    await life.acquire('first', () => 1, close)
    await life.acquire(
      'second',
      () => 2,
      () => {
        throw new Error('no')
      },
    )
    expect(await life.shutdown()).toEqual([])
    expect(close).toHaveBeenCalledTimes(1)
  })

  it('names at the one deadline everything that is still open', async () => {
    const life = createLifecycle({ log, deadlineMs: 20 })
    await life.acquire('redis', () => 1, never)
    await life.acquire('loop', () => 2, never)
    const close = vi.fn()
    await life.acquire('listener', () => 3, close)
    expect(await life.shutdown()).toEqual(['redis', 'loop'])
    expect(close).toHaveBeenCalledTimes(1)
  })

  it('opens nothing once shutting down has begun', async () => {
    const life = createLifecycle({ log, deadlineMs: 1_000 })
    await life.shutdown()
    const open = vi.fn()
    await expect(life.acquire('redis', open, () => {})).rejects.toThrow('not opening redis')
    expect(open).not.toHaveBeenCalled()
  })

  it('closes what was being opened when shutting down began', async () => {
    const life = createLifecycle({ log, deadlineMs: 1_000 })
    let finishOpening = (_value: string): void => {}
    const close = vi.fn()
    const acquired = life.acquire(
      'redis',
      () =>
        new Promise<string>((resolve) => {
          finishOpening = resolve
        }),
      close,
    )
    await life.shutdown()
    finishOpening('redis')
    await expect(acquired).rejects.toThrow('closed redis again')
    expect(close).toHaveBeenCalledExactlyOnceWith('redis')
  })
})

describe('runService', () => {
  const signals = ['SIGINT', 'SIGTERM', 'uncaughtException', 'unhandledRejection'] as const
  const before = new Map(signals.map((name) => [name, process.listeners(name as 'SIGINT')]))
  const exit = vi.spyOn(process, 'exit')
  let exited: Promise<number | undefined>

  beforeEach(() => {
    exited = new Promise((resolve) => {
      exit.mockImplementation(((code?: number) => resolve(code)) as typeof process.exit)
    })
  })
  afterEach(() => {
    for (const name of signals) {
      for (const listener of process.listeners(name as 'SIGINT')) {
        if (!before.get(name)?.includes(listener)) process.off(name, listener)
      }
    }
  })

  it('exits with 0 on a signal after a clean shutdown', async () => {
    const life = createLifecycle({ log, deadlineMs: 1_000 })
    await runService(life, log, async () => {})
    process.emit('SIGTERM')
    expect(await exited).toBe(0)
  })

  it('exits with 1 when something is still open at the deadline', async () => {
    const life = createLifecycle({ log, deadlineMs: 10 })
    await runService(life, log, async () => {
      await life.acquire('redis', () => 1, never)
    })
    process.emit('SIGTERM')
    expect(await exited).toBe(1)
  })

  it('exits with 1 at once on the second signal', async () => {
    const life = createLifecycle({ log, deadlineMs: 60_000 })
    await runService(life, log, async () => {
      await life.acquire('redis', () => 1, never)
    })
    process.emit('SIGTERM')
    process.emit('SIGINT')
    expect(await exited).toBe(1)
  })

  it('releases what a failed start acquired and exits with 1', async () => {
    const life = createLifecycle({ log, deadlineMs: 1_000 })
    const close = vi.fn()
    await runService(life, log, async () => {
      await life.acquire('redis', () => 1, close)
      throw new Error('port taken')
    })
    expect(await exited).toBe(1)
    expect(close).toHaveBeenCalledTimes(1)
  })

  it('exits with 0 on a signal during the start', async () => {
    const life = createLifecycle({ log, deadlineMs: 1_000 })
    const close = vi.fn()
    await runService(life, log, async () => {
      await life.acquire('redis', () => 1, close)
      process.emit('SIGTERM')
      await life.acquire('listener', () => 2, close)
    })
    expect(await exited).toBe(0)
    expect(close).toHaveBeenCalledTimes(1)
  })

  it('shuts down and exits with 1 on an exception that nobody caught', async () => {
    const life = createLifecycle({ log, deadlineMs: 1_000 })
    const close = vi.fn()
    await runService(life, log, async () => {
      await life.acquire('redis', () => 1, close)
    })
    process.listeners('uncaughtException').at(-1)?.(new Error('bug'), 'uncaughtException')
    expect(await exited).toBe(1)
    expect(close).toHaveBeenCalledTimes(1)
  })
})
