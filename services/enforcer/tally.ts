import type { Counter } from '../../shared/runtime/metrics.ts'

/** A number that a check raises without any look-up. */
export interface Cell {
  count: number
}

/**
 * Counts that reach a Prometheus counter only when it is read.
 *
 * prom-client validates and hashes labels on each increment, which costs more than the rest of a check's
 * bookkeeping; a check raises plain numbers instead. The labels must come from a bounded set.
 */
export class Tally<Label extends string> {
  readonly #cells: { labels: Record<Label, string>; cell: Cell; told: number }[] = []

  cell(labels: Record<Label, string>): Cell {
    const cell = { count: 0 }
    this.#cells.push({ labels, cell, told: 0 })
    return cell
  }

  /** Adds what was counted since the last call to `counter`. */
  flush(counter: Counter<Label>): void {
    for (const entry of this.#cells) {
      // Also an increase of 0, so that each series exists from the start and a rate sees its first event.
      counter.inc(entry.labels, entry.cell.count - entry.told)
      entry.told = entry.cell.count
    }
  }
}
