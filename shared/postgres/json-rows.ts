/** Any number of rows as one JSON parameter: Postgres takes at most 65,535 parameters, and thousands cost time. */
import { type RawBuilder, sql } from 'kysely'

/** Types of columns by name. */
export type Columns = Readonly<Record<string, string>>

/** The rows as a table `v`, in their order, so that ids are given in it too. */
export function rowsOf(rows: readonly object[], columns: Columns): RawBuilder<unknown> {
  const numbered = rows.map((row, ord) => ({ ...row, ord }))
  const types = Object.entries({ ...columns, ord: 'integer' }).map(
    ([name, type]) => sql`${sql.ref(name)} ${sql.raw(type)}`,
  )
  return sql`(select * from jsonb_to_recordset(${JSON.stringify(numbered)}::jsonb)
    as r(${sql.join(types)}) order by ord) as v`
}

export function namesOf(columns: Columns): RawBuilder<unknown> {
  return sql.join(Object.keys(columns).map((name) => sql.ref(name)))
}

/** Each column as it is in `v`. */
export function assignments(columns: Columns): RawBuilder<unknown> {
  return sql.join(Object.keys(columns).map((name) => sql`${sql.ref(name)} = v.${sql.ref(name)}`))
}
