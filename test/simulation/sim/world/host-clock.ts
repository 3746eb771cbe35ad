/**
 * A clock of one host: how it runs against real time, which nobody in the world can read.
 *
 * A monotonic clock has a rate and never a step; a wall clock may be set, which is a step.
 */
export class HostClock {
  #atUs = 0
  #readUs: number
  #rate: number

  /** `rate` 1 is exact; `offsetUs` is what it shows at the beginning. */
  constructor(rate: number, offsetUs: number) {
    this.#rate = rate
    this.#readUs = offsetUs
  }

  readUs(realUs: number): number {
    return this.#readUs + (realUs - this.#atUs) * this.#rate
  }

  /** When the clock will show `localUs` if nobody touches it. */
  realUs(localUs: number): number {
    return this.#atUs + (localUs - this.#readUs) / this.#rate
  }

  stepBy(realUs: number, stepUs: number): void {
    this.#readUs = this.readUs(realUs) + stepUs
    this.#atUs = realUs
  }

  runAt(realUs: number, rate: number): void {
    this.#readUs = this.readUs(realUs)
    this.#atUs = realUs
    this.#rate = rate
  }
}
