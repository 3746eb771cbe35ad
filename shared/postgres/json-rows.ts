/**
 * Any number of rows as one text parameter: Postgres takes at most 65,535 parameters, and thousands cost time.
 *
 * The text has a line a row, since JSON writes a line break of its own otherwise. Postgres reads each by itself, in half
 * the time that it takes for one large document of all of them, of which it would copy every part.
 */
import { type RawBuilder, sql } from 'kysely'

/** Types of columns by name. */
export type Columns = Readonly<Record<string, string>>

/** The rows as a table `v`, in their order, so that ids are given in it too. */
export function rowsOf(rows: readonly object[], columns: Columns): RawBuilder<unknown> {
  const names = Object.keys(columns)
  const lines = linesOf(rows, (row) => names.map((name) => Reflect.get(row, name)))
  const parts = Object.entries(columns).map(
    ([name, type], at) => sql`${partOf(at, type)} as ${sql.ref(name)}`,
  )
  return sql`(select ${sql.join(parts)} from (
    select line::jsonb as parts, ord from ${column(lines)} with ordinality as r(line, ord) offset 0
  ) as r order by ord) as v`
}

/** Rows of a few short texts and two documents, as a table `v` of `texts`, `before`, `after` and `ord` from 1. */
export function documentRows(
  rows: readonly {
    readonly texts: readonly string[]
    readonly before: unknown
    readonly after: unknown
  }[],
): RawBuilder<unknown> {
  const texts = linesOf(rows, (row) => row.texts)
  const before = linesOf(rows, (row) => row.before)
  const after = linesOf(rows, (row) => row.after)
  return sql`(
    select texts::jsonb as texts, nullif(before, 'null')::jsonb as before, nullif(after, 'null')::jsonb as after, ord
    from rows from (${column(texts)}, ${column(before)}, ${column(after)})
      with ordinality as r(texts, before, after, ord)
    order by ord) as v`
}

function linesOf<T>(rows: readonly T[], textOf: (row: T) => unknown): string {
  return rows.map((row) => JSON.stringify(textOf(row) ?? null)).join('\n')
}

function column(lines: string): RawBuilder<unknown> {
  return sql`unnest(string_to_array(${lines}, chr(10)))`
}

/** One part of a row; JSON's null is SQL's. */
function partOf(at: number, type: string): RawBuilder<unknown> {
  const index = sql.lit(at)
  if (type === 'jsonb') return sql`nullif(parts -> ${index}, 'null')`
  if (type !== 'text[]') return sql`(parts ->> ${index})::${sql.raw(type)}`
  return sql`case when jsonb_typeof(parts -> ${index}) = 'array'
    then array(select jsonb_array_elements_text(parts -> ${index})) end`
}

export function namesOf(columns: Columns): RawBuilder<unknown> {
  return sql.join(Object.keys(columns).map((name) => sql.ref(name)))
}

/** Each column as it is in `v`. */
export function assignments(columns: Columns): RawBuilder<unknown> {
  return sql.join(Object.keys(columns).map((name) => sql`${sql.ref(name)} = v.${sql.ref(name)}`))
}
