import { sql } from 'kysely'
import type { Override } from '../core/overrides.ts'
import type { Db, Trx } from './plane.ts'

/** Adds overrides, or replaces those of the same values. */
export async function writeOverrides(
  trx: Trx,
  policyId: number,
  overrides: readonly Override[],
): Promise<void> {
  if (overrides.length === 0) return
  await trx
    .insertInto('overrides')
    .values(
      overrides.map(({ value, rule, expiresAtMs }) => ({
        policy_id: policyId,
        value,
        rule: JSON.stringify(rule),
        expires_at: expiresAtMs === undefined ? null : new Date(expiresAtMs),
      })),
    )
    .onConflict((conflict) =>
      conflict.columns(['policy_id', 'value']).doUpdateSet({
        rule: sql`excluded.rule`,
        expires_at: sql`excluded.expires_at`,
      }),
    )
    .execute()
}

/** Removes overrides by value; gives how many there were. */
export async function deleteOverrides(
  trx: Trx,
  policyId: number,
  values: readonly string[],
): Promise<number> {
  if (values.length === 0) return 0
  const { numDeletedRows } = await trx
    .deleteFrom('overrides')
    .where('policy_id', '=', policyId)
    .where('value', 'in', values)
    .executeTakeFirstOrThrow()
  return Number(numDeletedRows)
}

/** How many overrides a policy has, and how many bytes they come to. */
export async function sizeOfOverrides(
  db: Db,
  policyId: number,
): Promise<{ readonly count: number; readonly bytes: number }> {
  return await db
    .selectFrom('overrides')
    .where('policy_id', '=', policyId)
    .select([
      sql<number>`count(*)`.as('count'),
      sql<number>`coalesce(sum(octet_length(to_json(value)::text) + octet_length(rule::text)
        + case when expires_at is null then 20 else 50 end), 0)`.as('bytes'),
    ])
    .executeTakeFirstOrThrow()
    .then(({ count, bytes }) => ({ count: Number(count), bytes: Number(bytes) }))
}
