/**
 * Values with wildcards, such as `acme-*`: each `*` stands for any run of characters, also none.
 *
 * Patterns are kept by what stands before their first `*` and after their last, so that a value is looked up once
 * for each pair of lengths that occurs and compared only with patterns that already agree at both ends.
 */

/** Patterns of one entry key at one place in a match. Built once, never changed after. */
export interface PatternTable<T> {
  readonly shapes: Shape<T>[]
  size: number
}

interface Shape<T> {
  readonly prefixLength: number
  readonly suffixLength: number
  readonly byEnds: Map<string, Pattern<T>[]>
}

interface Pattern<T> {
  readonly text: string
  /** What must follow between the ends, in order. */
  readonly middle: readonly string[]
  /** Place among all patterns of the table. */
  readonly order: number
  readonly item: T
}

export function emptyPatterns<T>(): PatternTable<T> {
  return { shapes: [], size: 0 }
}

export function isPattern(value: string): boolean {
  return value.includes('*')
}

/** The item of `text`, made by `create` when the pattern is not there yet. Patterns keep the order they came in. */
export function patternItem<T>(table: PatternTable<T>, text: string, create: () => T): T {
  const [prefix = '', ...rest] = text.split('*')
  const suffix = rest.pop() ?? ''
  const shape = shapeOf(table, prefix.length, suffix.length)
  const key = `${prefix}*${suffix}`
  const patterns = shape.byEnds.get(key) ?? []
  const known = patterns.find((pattern) => pattern.text === text)
  if (known !== undefined) return known.item
  const item = create()
  patterns.push({ text, middle: rest, order: table.size, item })
  table.size++
  shape.byEnds.set(key, patterns)
  return item
}

/** Items of the patterns that `value` matches, in the order in which they came. */
export function itemsMatching<T>(table: PatternTable<T>, value: string): readonly T[] {
  const found: Pattern<T>[] = []
  for (const { prefixLength, suffixLength, byEnds } of table.shapes) {
    const end = value.length - suffixLength
    if (end < prefixLength) continue
    const patterns = byEnds.get(`${value.slice(0, prefixLength)}*${value.slice(end)}`)
    for (const pattern of patterns ?? []) {
      if (holds(pattern.middle, value.slice(prefixLength, end))) found.push(pattern)
    }
  }
  if (found.length > 1) found.sort((one, other) => one.order - other.order)
  return found.map(({ item }) => item)
}

function holds(parts: readonly string[], text: string): boolean {
  let from = 0
  for (const part of parts) {
    const at = text.indexOf(part, from)
    if (at < 0) return false
    from = at + part.length
  }
  return true
}

function shapeOf<T>(table: PatternTable<T>, prefixLength: number, suffixLength: number): Shape<T> {
  const known = table.shapes.find(
    (shape) => shape.prefixLength === prefixLength && shape.suffixLength === suffixLength,
  )
  if (known !== undefined) return known
  const shape = { prefixLength, suffixLength, byEnds: new Map<string, Pattern<T>[]>() }
  table.shapes.push(shape)
  return shape
}
