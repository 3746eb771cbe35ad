/** What moves a terminal's cursor, colours it, or turns the direction of writing. */
const CONTROL = /[\p{Cc}\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/gu

/**
 * Text on one line, with its control characters written out: a reason or a value that somebody else sent may neither
 * paint a line of a list that is not there nor hide one that is.
 */
export function visible(text: string): string {
  return text.replace(CONTROL, (one) => {
    const code = one.codePointAt(0) ?? 0
    return `\\u${code.toString(16).padStart(4, '0')}`
  })
}

/** Columns of text, aligned, two spaces apart; columns whose header begins with `>` are aligned to the right. */
export function table(headers: readonly string[], rows: readonly (readonly string[])[]): string[] {
  const titles = headers.map((header) => header.replace(/^>/, ''))
  const shown = rows.map((row) => row.map(visible))
  const widths = titles.map((title, i) =>
    Math.max(title.length, ...shown.map((row) => (row[i] ?? '').length)),
  )
  const line = (cells: readonly string[]): string =>
    cells
      .map((cell, i) => {
        const width = widths[i] ?? 0
        return headers[i]?.startsWith('>') ? cell.padStart(width) : cell.padEnd(width)
      })
      .join('  ')
      .trimEnd()
  return [line(titles), ...shown.map(line)]
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
