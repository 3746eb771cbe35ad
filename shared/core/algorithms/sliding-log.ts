/**
 * Sliding log: at most the share's tokens in any span of a window's length, each counted at its own microsecond.
 *
 * Exact for up to LOG_ENTRIES_MAX admissions at different instants in a window. Beyond that, those of one cell, a
 * small part of the window, are counted at the last of their instants: given back that much later, never sooner.
 */
import { type Entry, slidingBy } from './entries.ts'

/** Bounds a key to about 4 kB and a check to some tens of microseconds. */
export const LOG_ENTRIES_MAX = 256

/** Half the entries, so that a compaction makes room for as many again. */
const CELLS = LOG_ENTRIES_MAX / 2

export const slidingLog = slidingBy({
  stamp: (atUs) => atUs,
  compact(entries, windowUs) {
    if (entries.length <= LOG_ENTRIES_MAX) return entries
    const joined: Entry[] = []
    for (const entry of entries) {
      const last = joined.at(-1)
      if (last !== undefined && cellOf(last.atUs, windowUs) === cellOf(entry.atUs, windowUs)) {
        joined[joined.length - 1] = { atUs: entry.atUs, tokens: last.tokens + entry.tokens }
      } else joined.push(entry)
    }
    return joined
  },
  find(entries, atUs, windowUs) {
    const index = entries.findIndex((entry) => entry.atUs >= atUs)
    const found = entries[index]
    // Later than its own instant only where its cell was joined.
    const isIts = found !== undefined && cellOf(found.atUs, windowUs) === cellOf(atUs, windowUs)
    return isIts ? index : -1
  },
})

function cellOf(atUs: number, windowUs: number): number {
  return Math.floor(atUs / Math.ceil(windowUs / CELLS))
}
