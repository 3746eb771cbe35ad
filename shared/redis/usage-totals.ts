import type { UsageRow } from '../core/ledger/types.ts'
import { unpackDoubles } from './layout.ts'

/** What one slot group counted in the window that its entry of the ring holds. */
interface Total {
  readonly window: number
  readonly admitted: number
  readonly denied: number
  readonly returned: number
}

/** `limit.epoch:place in the ring`, as in `lua/_totals.lua`. */
const FIELD = /^(\d{1,16})\.(\d{1,16}):\d{1,2}$/

/**
 * Usage per limit and window, summed over slot groups.
 *
 * A reading brings only what changed in each group, so what the others hold of the same window is kept here: one
 * entry for each limit, place in the ring and group.
 */
export class UsageTotals {
  readonly #byField = new Map<string, Map<number, Total>>()
  readonly #changed = new Set<string>()

  /** Takes in one entry as it was read; a null or strange one is none. */
  put(group: number, field: string | undefined, text: Buffer | null | undefined): void {
    if (field === undefined || text === null || text === undefined || !FIELD.test(field)) return
    const [window = 0, admitted = 0, denied = 0, returned = 0] = unpackDoubles(text)
    const groups = this.#byField.get(field) ?? new Map<number, Total>()
    groups.set(group, { window, admitted, denied, returned })
    this.#byField.set(field, groups)
    this.#changed.add(field)
  }

  /** The windows that changed since this was last asked: of each place in the ring, the newest that any group has. */
  takeRows(): readonly UsageRow[] {
    const rows = [...this.#changed].flatMap((field) => this.#rowOf(field))
    this.#changed.clear()
    return rows
  }

  /** Forgets all limits but these. */
  keepOnly(limits: ReadonlyMap<number, unknown>): void {
    for (const field of this.#byField.keys()) {
      if (!limits.has(Number(FIELD.exec(field)?.[1]))) this.#byField.delete(field)
    }
  }

  #rowOf(field: string): readonly UsageRow[] {
    const match = FIELD.exec(field)
    const totals = [...(this.#byField.get(field)?.values() ?? [])]
    if (match === null || totals.length === 0) return []
    const window = Math.max(...totals.map((total) => total.window))
    const row = { limitId: Number(match[1]), usageEpoch: Number(match[2]), window }
    const sum = (figure: 'admitted' | 'denied' | 'returned'): number =>
      totals
        .filter((total) => total.window === window)
        .reduce((all, total) => Math.min(all + total[figure], Number.MAX_SAFE_INTEGER), 0)
    return [{ ...row, admitted: sum('admitted'), denied: sum('denied'), returned: sum('returned') }]
  }
}
