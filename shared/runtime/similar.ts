/** The word of `known` that `word` is most likely a misspelling of; null when none is at most `most` letters away. */
export function similarTo(
  word: string,
  known: readonly string[],
  most = Math.max(1, Math.floor(word.length / 3)),
): string | null {
  let nearest: { readonly name: string; readonly distance: number } | null = null
  for (const name of known) {
    const distance = distanceOf(word.toLowerCase(), name.toLowerCase())
    if (distance <= most && distance < (nearest?.distance ?? Number.POSITIVE_INFINITY)) {
      nearest = { name, distance }
    }
  }
  return nearest?.name ?? null
}

/** ` (did you mean rate_limit?)`, or nothing. */
export function suggestion(word: string, known: readonly string[]): string {
  const similar = similarTo(word, known)
  return similar === null ? '' : ` (did you mean ${similar}?)`
}

/** Letters to insert, leave out or change, or neighbours to swap, at least. */
function distanceOf(one: string, other: string): number {
  let before: readonly number[] = []
  let row: readonly number[] = Array.from({ length: other.length + 1 }, (_, column) => column)
  for (let line = 1; line <= one.length; line++) {
    const next = [line]
    for (let column = 1; column <= other.length; column++) {
      const isSame = one[line - 1] === other[column - 1]
      const isSwap = one[line - 1] === other[column - 2] && one[line - 2] === other[column - 1]
      next[column] = Math.min(
        at(row, column) + 1,
        at(next, column - 1) + 1,
        at(row, column - 1) + (isSame ? 0 : 1),
        isSwap ? at(before, column - 2) + 1 : Number.POSITIVE_INFINITY,
      )
    }
    before = row
    row = next
  }
  return at(row, other.length)
}

function at(row: readonly number[], column: number): number {
  return row[column] ?? Number.POSITIVE_INFINITY
}
