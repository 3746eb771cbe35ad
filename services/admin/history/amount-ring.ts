/** What came of checks in some stretch of time. Tokens; `unmet` is an estimate and may be a fraction. */
export interface Amounts {
  readonly admitted: number
  readonly denied: number
  readonly returned: number
  /** Wanted beyond what the region's share allowed. */
  readonly unmet: number
}

export const NO_AMOUNTS: Amounts = { admitted: 0, denied: 0, returned: 0, unmet: 0 }

const FIGURES = 4
const UNUSED = -1

/**
 * Amounts over the last `slots` stretches of `slotMs` each, in memory of a fixed size.
 *
 * What is older than the ring reaches is ignored, so a late report lands in its own stretch or nowhere.
 */
export class AmountRing {
  readonly slotMs: number
  readonly #slots: number
  readonly #index: Float64Array
  readonly #amounts: Float64Array

  constructor(slots: number, slotMs: number) {
    this.slotMs = slotMs
    this.#slots = slots
    this.#index = new Float64Array(slots).fill(UNUSED)
    this.#amounts = new Float64Array(slots * FIGURES)
  }

  add(atMs: number, more: Amounts): void {
    const index = Math.floor(atMs / this.slotMs)
    const slot = index % this.#slots
    const present = this.#index[slot] ?? UNUSED
    if (present > index) return
    const at = slot * FIGURES
    if (present < index) {
      this.#index[slot] = index
      this.#amounts.fill(0, at, at + FIGURES)
    }
    this.#amounts[at] = (this.#amounts[at] ?? 0) + more.admitted
    this.#amounts[at + 1] = (this.#amounts[at + 1] ?? 0) + more.denied
    this.#amounts[at + 2] = (this.#amounts[at + 2] ?? 0) + more.returned
    this.#amounts[at + 3] = (this.#amounts[at + 3] ?? 0) + more.unmet
  }

  /** Null for a stretch of which nothing was reported or nothing is known any more. */
  at(index: number): Amounts | null {
    const slot = index % this.#slots
    if (this.#index[slot] !== index) return null
    const at = slot * FIGURES
    const [admitted = 0, denied = 0, returned = 0, unmet = 0] = this.#amounts.subarray(
      at,
      at + FIGURES,
    )
    return { admitted, denied, returned, unmet }
  }

  /** Everything of the stretches from `from` to before `to`. */
  sum(from: number, to: number): Amounts {
    let total = NO_AMOUNTS
    for (let slot = 0; slot < this.#slots; slot++) {
      const index = this.#index[slot] ?? UNUSED
      if (index < from || index >= to) continue
      total = plus(total, this.at(index) ?? NO_AMOUNTS)
    }
    return total
  }
}

export function plus(one: Amounts, other: Amounts): Amounts {
  return {
    admitted: one.admitted + other.admitted,
    denied: one.denied + other.denied,
    returned: one.returned + other.returned,
    unmet: one.unmet + other.unmet,
  }
}
