export interface FieldChange {
  readonly path: string
  readonly before: unknown
  readonly after: unknown
}

/** Fields that differ between two documents, by their paths; arrays by position. */
export function differences(before: unknown, after: unknown, path = ''): readonly FieldChange[] {
  if (isNode(before) && isNode(after)) {
    const names = [...new Set([...Object.keys(before), ...Object.keys(after)])]
    return names.flatMap((name) =>
      differences(before[name], after[name], path === '' ? name : `${path}.${name}`),
    )
  }
  if (JSON.stringify(before) === JSON.stringify(after)) return []
  if (isNode(after) && !isNode(before)) return differences({}, after, path)
  return [{ path, before, after }]
}

/** As a diff shows them: a line for what was, and one for what is. */
export function differenceText(fields: readonly FieldChange[]): string {
  return fields
    .flatMap(({ path, before, after }) => [
      ...(isThere(before) ? [`-${path}: ${JSON.stringify(before)}`] : []),
      ...(isThere(after) ? [`+${path}: ${JSON.stringify(after)}`] : []),
    ])
    .join('\n')
}

function isThere(value: unknown): boolean {
  return value !== undefined && value !== null
}

function isNode(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null
}
