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
