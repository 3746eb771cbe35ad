/** Columns of text, aligned, two spaces apart; columns whose header begins with `>` are aligned to the right. */
export function table(headers: readonly string[], rows: readonly (readonly string[])[]): string[] {
  const titles = headers.map((header) => header.replace(/^>/, ''))
  const widths = titles.map((title, i) =>
    Math.max(title.length, ...rows.map((row) => (row[i] ?? '').length)),
  )
  const line = (cells: readonly string[]): string =>
    cells
      .map((cell, i) => {
        const width = widths[i] ?? 0
        return headers[i]?.startsWith('>') ? cell.padStart(width) : cell.padEnd(width)
      })
      .join('  ')
      .trimEnd()
  return [line(titles), ...rows.map(line)]
}

const GROUPED = new Intl.NumberFormat('en-GB', { maximumFractionDigits: 1 })

/** A number for people: `10,000`. */
export function grouped(value: number): string {
  return GROUPED.format(value)
}

/** A part of a whole for people: `98.3 %`. */
export function percent(part: number): string {
  return `${GROUPED.format(Math.round(1_000 * part) / 10)} %`
}

/** Names in a sentence: `a, b and c`. */
export function listed(names: readonly string[]): string {
  const last = names.at(-1) ?? ''
  return names.length < 2 ? last : `${names.slice(0, -1).join(', ')} and ${last}`
}
