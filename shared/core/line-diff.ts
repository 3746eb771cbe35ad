/** The shortest way from some lines to others, as a unified diff. */

/** Lines beyond which the middle is told as replaced whole: the table below grows with the product of both. */
const LINES_MAX = 2_000

const CONTEXT_LINES = 3

interface Edit {
  readonly mark: ' ' | '-' | '+'
  readonly line: string
}

/** Lines of a unified diff without its file header; none when both are the same. */
export function unifiedDiff(before: readonly string[], after: readonly string[]): string[] {
  const edits = editsOf(before, after)
  return hunksOf(edits).flatMap(({ start, end }) => {
    const hunk = edits.slice(start, end)
    const count = (all: readonly Edit[], but: '-' | '+'): number =>
      all.filter(({ mark }) => mark !== but).length
    const earlier = edits.slice(0, start)
    const old = `-${count(earlier, '+') + 1},${count(hunk, '+')}`
    const now = `+${count(earlier, '-') + 1},${count(hunk, '-')}`
    return [`@@ ${old} ${now} @@`, ...hunk.map(({ mark, line }) => `${mark}${line}`)]
  })
}

/** Runs of edits that are near a change; those that meet are one. */
function hunksOf(edits: readonly Edit[]): readonly { start: number; end: number }[] {
  const hunks: { start: number; end: number }[] = []
  for (const [at, { mark }] of edits.entries()) {
    if (mark === ' ') continue
    const start = Math.max(0, at - CONTEXT_LINES)
    const end = Math.min(edits.length, at + CONTEXT_LINES + 1)
    const last = hunks.at(-1)
    if (last !== undefined && last.end >= start) last.end = end
    else hunks.push({ start, end })
  }
  return hunks
}

function editsOf(before: readonly string[], after: readonly string[]): readonly Edit[] {
  const shorter = Math.min(before.length, after.length)
  let start = 0
  while (start < shorter && before[start] === after[start]) start++
  let end = 0
  while (end < shorter - start && before.at(-1 - end) === after.at(-1 - end)) end++
  const same = (lines: readonly string[]): Edit[] => lines.map((line) => ({ mark: ' ', line }))
  return [
    ...same(before.slice(0, start)),
    ...middleEdits(
      before.slice(start, before.length - end),
      after.slice(start, after.length - end),
    ),
    ...same(before.slice(before.length - end)),
  ]
}

function middleEdits(before: readonly string[], after: readonly string[]): Edit[] {
  if (before.length > LINES_MAX || after.length > LINES_MAX) {
    return [...before.map(removed), ...after.map(added)]
  }
  const common = commonLengths(before, after)
  const edits: Edit[] = []
  let [one, other] = [0, 0]
  while (one < before.length || other < after.length) {
    const edit = nextEdit(before[one], after[other], () => {
      const at = one * (after.length + 1) + other
      return (common[at + after.length + 1] ?? 0) >= (common[at + 1] ?? 0)
    })
    edits.push(edit)
    if (edit.mark !== '+') one++
    if (edit.mark !== '-') other++
  }
  return edits
}

/** `isOldInWay`: leaving the old line out keeps as much in common as leaving the new one out. */
function nextEdit(
  old: string | undefined,
  now: string | undefined,
  isOldInWay: () => boolean,
): Edit {
  if (old === undefined) return added(now ?? '')
  if (now === undefined) return removed(old)
  if (old === now) return { mark: ' ', line: old }
  return isOldInWay() ? removed(old) : added(now)
}

function removed(line: string): Edit {
  return { mark: '-', line }
}

function added(line: string): Edit {
  return { mark: '+', line }
}

/** Most lines that the rests from each pair of places have in common, row by row. */
function commonLengths(before: readonly string[], after: readonly string[]): Uint16Array {
  const width = after.length + 1
  const common = new Uint16Array((before.length + 1) * width)
  for (let one = before.length - 1; one >= 0; one--) {
    for (let other = after.length - 1; other >= 0; other--) {
      const at = one * width + other
      common[at] =
        before[one] === after[other]
          ? (common[at + width + 1] ?? 0) + 1
          : Math.max(common[at + width] ?? 0, common[at + 1] ?? 0)
    }
  }
  return common
}
