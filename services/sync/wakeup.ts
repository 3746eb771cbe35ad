import { setTimeout as delay } from 'node:timers/promises'

/** A wait that somebody else can end. A call made while nobody waits ends the next wait at once. */
export class Wakeup {
  #isCalled = false
  #end: (() => void) | undefined

  wake(): void {
    this.#isCalled = true
    this.#end?.()
  }

  /** Resolves after `ms`, or as soon as it is called. One at a time. */
  async wait(ms: number): Promise<void> {
    if (!this.#isCalled) {
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, ms)
        this.#end = () => {
          clearTimeout(timer)
          resolve()
        }
      })
    }
    this.#end = undefined
    this.#isCalled = false
  }
}

/** Resolves after `ms`, or at once when `signal` is aborted. */
export async function pause(ms: number, signal: AbortSignal): Promise<void> {
  await delay(ms, undefined, { signal }).catch((err: unknown) => {
    if (!signal.aborted) throw err
  })
}
