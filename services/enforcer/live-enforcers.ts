import type { EnforcerRoll } from '../../shared/core/ports.ts'
import type { EnforcerStatus } from '../../shared/core/rollout.ts'

/**
 * How many enforcers of this region are alive; tells them of this one, and the region's daemon of what it applies.
 *
 * While Redis is away the last known number stays: that is when it is needed, and enforcers that cannot reach Redis
 * have not gone.
 */
export class LiveEnforcers {
  readonly #roll: EnforcerRoll | null
  readonly #id: string
  readonly #statusOf: () => Omit<EnforcerStatus, 'id'>
  #live = 1

  constructor(roll: EnforcerRoll | null, id: string, statusOf: () => Omit<EnforcerStatus, 'id'>) {
    this.#roll = roll
    this.#id = id
    this.#statusOf = statusOf
  }

  get live(): number {
    return this.#live
  }

  async beatOnce(): Promise<void> {
    if (this.#roll === null) return
    this.#live = await this.#roll.beat({ id: this.#id, ...this.#statusOf() })
  }

  async leave(): Promise<void> {
    await this.#roll?.leave(this.#id)
  }
}
