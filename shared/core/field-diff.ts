/** What differs between two documents, field by field. */

export interface FieldChange {
  /** Such as `limits[per-minute].capacity`: items of a list go by their names where they have one. */
  readonly field: string
  /** Absent: the field was not there. */
  readonly before?: unknown
  readonly after?: unknown
}

/** In the order of the fields, those of `before` first. Objects are compared field by field, other values whole. */
export function fieldChanges(before: unknown, after: unknown, at = ''): readonly FieldChange[] {
  const [old, now] = [fieldsOf(before), fieldsOf(after)]
  if (old === null || now === null)
    return isSame(before, after) ? [] : [changeOf(at, before, after)]
  const names = new Set([...old.keys(), ...now.keys()])
  return [...names].flatMap((name) => {
    const isItem = name.startsWith('[')
    const field = at === '' || isItem ? `${at}${name}` : `${at}.${name}`
    return fieldChanges(old.get(name), now.get(name), field)
  })
}

function changeOf(field: string, before: unknown, after: unknown): FieldChange {
  return {
    field,
    ...(before !== undefined && { before }),
    ...(after !== undefined && { after }),
  }
}

/** Parts of an object, or of a list whose items have names of their own; null for anything else. */
function fieldsOf(value: unknown): ReadonlyMap<string, unknown> | null {
  if (typeof value !== 'object' || value === null) return null
  if (!Array.isArray(value)) return new Map(Object.entries(value))
  const items: readonly unknown[] = value
  const names = items.map((item) =>
    typeof item === 'object' && item !== null && 'name' in item ? String(item.name) : null,
  )
  if (names.includes(null) || new Set(names).size < items.length) return null
  return new Map(items.map((item, index) => [`[${names[index]}]`, item]))
}

function isSame(one: unknown, other: unknown): boolean {
  return JSON.stringify(one) === JSON.stringify(other)
}
