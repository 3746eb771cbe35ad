/** What happens at an instant of real (simulated) time. */
export type Action = () => void

/**
 * A binary heap of actions by time; those of one instant run in the order in which they were added, so that a
 * run depends on nothing but its seed. Times and order are kept in flat arrays: this is the hottest loop.
 */
export class EventQueue {
  #times = new Float64Array(1_024)
  #orders = new Float64Array(1_024)
  readonly #actions: Action[] = []
  #size = 0
  #added = 0
  #nowUs = 0
  #steps = 0

  get nowUs(): number {
    return this.#nowUs
  }

  /** Actions run so far. */
  get steps(): number {
    return this.#steps
  }

  /** Never in the past: an action that is late runs at once. */
  at(timeUs: number, action: Action): void {
    if (this.#size === this.#times.length) this.#grow()
    const order = this.#added++
    let hole = this.#size++
    const time = Math.max(timeUs, this.#nowUs)
    while (hole > 0) {
      const parent = (hole - 1) >> 1
      if (!this.#isBefore(time, order, parent)) break
      this.#move(parent, hole)
      hole = parent
    }
    this.#put(hole, time, order, action)
  }

  after(delayUs: number, action: Action): void {
    this.at(this.#nowUs + delayUs, action)
  }

  /** Runs everything up to `untilUs`; time then stands there. */
  runUntil(untilUs: number): void {
    while (this.#size > 0 && (this.#times[0] ?? 0) <= untilUs) {
      this.#nowUs = this.#times[0] ?? 0
      const action = this.#pop()
      this.#steps++
      action()
    }
    this.#nowUs = Math.max(this.#nowUs, untilUs)
  }

  #pop(): Action {
    const [action] = this.#actions
    const last = --this.#size
    const time = this.#times[last] ?? 0
    const order = this.#orders[last] ?? 0
    const moved = this.#actions.pop()
    if (action === undefined || moved === undefined) throw new Error('the queue is empty')
    if (last === 0) return action
    let hole = 0
    for (let child = 1; child < last; child = 2 * hole + 1) {
      if (child + 1 < last && this.#isBelow(child + 1, child)) child++
      if (this.#isBefore(time, order, child)) break
      this.#move(child, hole)
      hole = child
    }
    this.#put(hole, time, order, moved)
    return action
  }

  #isBefore(time: number, order: number, other: number): boolean {
    const otherTime = this.#times[other] ?? 0
    return time < otherTime || (time === otherTime && order < (this.#orders[other] ?? 0))
  }

  #isBelow(one: number, other: number): boolean {
    return this.#isBefore(this.#times[one] ?? 0, this.#orders[one] ?? 0, other)
  }

  #move(from: number, to: number): void {
    const action = this.#actions[from]
    if (action !== undefined) this.#put(to, this.#times[from] ?? 0, this.#orders[from] ?? 0, action)
  }

  #put(index: number, time: number, order: number, action: Action): void {
    this.#times[index] = time
    this.#orders[index] = order
    this.#actions[index] = action
  }

  #grow(): void {
    const times = new Float64Array(this.#times.length * 2)
    const orders = new Float64Array(this.#orders.length * 2)
    times.set(this.#times)
    orders.set(this.#orders)
    this.#times = times
    this.#orders = orders
  }
}
