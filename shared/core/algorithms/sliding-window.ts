/**
 * Sliding window in sub-windows: at most the share's tokens in any span of a window's length.
 *
 * What a sub-window admitted counts until its last microsecond is a window old, so the oldest counts in full and a
 * true window never holds more than the share. A caller that empties the share at once has it back after up to a
 * sub-window more.
 */
import { type Entry, slidingBy } from './entries.ts'

/**
 * Sub-windows of a window. More give capacity back sooner (up to a twentieth of a window late) and cost 16 bytes each
 * in a key that is used throughout.
 */
const SUB_WINDOWS = 20

export const slidingWindow = slidingBy({
  stamp: lastOf,
  compact: (entries) => entries,
  find: (entries: readonly Entry[], atUs, windowUs) =>
    entries.findIndex((entry) => entry.atUs === lastOf(atUs, windowUs)),
})

/** Last microsecond of the sub-window. */
function lastOf(atUs: number, windowUs: number): number {
  const lengthUs = Math.ceil(windowUs / SUB_WINDOWS)
  return (Math.floor(atUs / lengthUs) + 1) * lengthUs - 1
}
