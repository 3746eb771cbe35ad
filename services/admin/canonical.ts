/** A document as one text that does not depend on the order of its fields, which Postgres changes. */
export function canonical(document: unknown): string {
  return JSON.stringify(document, (_key, part: unknown) =>
    typeof part === 'object' && part !== null && !Array.isArray(part)
      ? Object.fromEntries(Object.entries(part).sort(([a], [b]) => (a < b ? -1 : 1)))
      : part,
  )
}
