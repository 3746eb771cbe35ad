/**
 * Values with wildcards, such as `acme-*`: each `*` stands for any run of characters, also none.
 *
 * Patterns are kept by how they begin, as far as the shortest of them says, and those that begin alike by what stands
 * before their first `*` and after their last. A value is looked up by its own beginning and then once for each pair
 * of lengths that occurs among those: what others look like costs it nothing.
 */

/** Patterns of one entry key at one place in a match. Built once, never changed after. */
export interface PatternTable<T> {
  /** Characters of the beginnings in `byHead`: those that all patterns have before their first `*`. */
  headLength: number
  byHead: Map<string, Shape<T>[]>
  /** Patterns that begin with `*`. */
  readonly headless: Shape<T>[]
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
  return { headLength: Number.POSITIVE_INFINITY, byHead: new Map(), headless: [], size: 0 }
}

export function isPattern(value: string): boolean {
  return value.includes('*')
}

/** The item of `text`, made by `create` when the pattern is not there yet. Patterns keep the order they came in. */
export function patternItem<T>(table: PatternTable<T>, text: string, create: () => T): T {
  const [prefix = '', ...rest] = text.split('*')
  const suffix = rest.pop() ?? ''
  const shape = shapeOf(shapesFor(table, prefix), prefix.length, suffix.length)
  const patterns = patternsOf(shape, `${prefix}*${suffix}`)
  const known = patterns.find((pattern) => pattern.text === text)
  if (known !== undefined) return known.item
  const item = create()
  patterns.push({ text, middle: rest, order: table.size, item })
  table.size++
  return item
}

/** Items of the patterns that `value` matches, in the order in which they came. */
export function itemsMatching<T>(table: PatternTable<T>, value: string): readonly T[] {
  const { headLength, byHead, headless } = table
  const found: Pattern<T>[] = []
  const alike = value.length < headLength ? undefined : byHead.get(value.slice(0, headLength))
  if (alike !== undefined) addMatching(found, alike, value)
  addMatching(found, headless, value)
  if (found.length > 1) found.sort((one, other) => one.order - other.order)
  return found.map(({ item }) => item)
}

function addMatching<T>(found: Pattern<T>[], shapes: readonly Shape<T>[], value: string): void {
  for (const { prefixLength, suffixLength, byEnds } of shapes) {
    const end = value.length - suffixLength
    if (end < prefixLength) continue
    const patterns = byEnds.get(`${value.slice(0, prefixLength)}*${value.slice(end)}`)
    for (const pattern of patterns ?? []) {
      if (holds(pattern.middle, value.slice(prefixLength, end))) found.push(pattern)
    }
  }
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

/** Where patterns that begin with `prefix` are kept. */
function shapesFor<T>(table: PatternTable<T>, prefix: string): Shape<T>[] {
  if (prefix === '') return table.headless
  if (prefix.length < table.headLength) shortenHeads(table, prefix.length)
  const head = prefix.slice(0, table.headLength)
  const shapes = table.byHead.get(head) ?? []
  table.byHead.set(head, shapes)
  return shapes
}

/** Done once for each length that is shorter than all before it. */
function shortenHeads<T>(table: PatternTable<T>, headLength: number): void {
  const longer = table.byHead
  table.headLength = headLength
  table.byHead = new Map()
  for (const { prefixLength, suffixLength, byEnds } of [...longer.values()].flat()) {
    for (const [ends, patterns] of byEnds) {
      const shape = shapeOf(
        shapesFor(table, ends.slice(0, prefixLength)),
        prefixLength,
        suffixLength,
      )
      shape.byEnds.set(ends, patterns)
    }
  }
}

function shapeOf<T>(shapes: Shape<T>[], prefixLength: number, suffixLength: number): Shape<T> {
  const known = shapes.find(
    (shape) => shape.prefixLength === prefixLength && shape.suffixLength === suffixLength,
  )
  if (known !== undefined) return known
  const shape = { prefixLength, suffixLength, byEnds: new Map<string, Pattern<T>[]>() }
  shapes.push(shape)
  return shape
}

function patternsOf<T>({ byEnds }: Shape<T>, ends: string): Pattern<T>[] {
  const patterns = byEnds.get(ends) ?? []
  byEnds.set(ends, patterns)
  return patterns
}
