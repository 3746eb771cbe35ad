import type { ComponentChildren } from 'preact'

export interface Column<T> {
  readonly name: string
  readonly isNumber?: boolean
  readonly cell: (row: T) => ComponentChildren
}

/**
 * A table that says what it holds to screen readers. It scrolls by itself where it is too wide; on a narrow screen each
 * row is a card whose cells name their columns.
 */
export function Table<T>(props: {
  readonly caption: string
  readonly columns: readonly Column<T>[]
  readonly rows: readonly T[]
  readonly keyOf: (row: T) => string
  readonly empty: string
}) {
  if (props.rows.length === 0) return <p class="hint">{props.empty}</p>
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by keyboard
    <section class="scroll" tabIndex={0} aria-label={props.caption}>
      <table>
        <caption class="visually-hidden">{props.caption}</caption>
        <thead>
          <tr>
            {props.columns.map((column) => (
              <th key={column.name} scope="col" class={column.isNumber ? 'number' : undefined}>
                {column.name}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {props.rows.map((row) => (
            <tr key={props.keyOf(row)}>
              {props.columns.map((column, i) =>
                i === 0 ? (
                  <th key={column.name} scope="row" data-column={column.name}>
                    {column.cell(row)}
                  </th>
                ) : (
                  <td
                    key={column.name}
                    data-column={column.name}
                    class={column.isNumber ? 'number' : undefined}
                  >
                    {column.cell(row)}
                  </td>
                ),
              )}
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  )
}
