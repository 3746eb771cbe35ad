import type { EnforcerRoll } from '../../shared/core/ports.ts'

/**
 * How many enforcers of this region are alive.
 *
 * While Redis is away the last known number stays: that is when it is needed, and enforcers that cannot reach Redis
 * have not gone.
 */
export class LiveEnforcers {
  readonly #roll: EnforcerRoll | null
  readonly #id: string
  #live = 1

  constructor(roll: EnforcerRoll | null, id: string) {
    this.#roll = roll
    this.#id = id
  }

  get live(): number {
    return this.#live
  }

  async beatOnce(): Promise<void> {
    if (this.#roll !== null) this.#live = await this.#roll.beat(this.#id)
  }

  async leave(): Promise<void> {
    await this.#roll?.leave(this.#id)
  }
}
