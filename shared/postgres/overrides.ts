import { sql } from 'kysely'
import type { Db } from './plane.ts'

/** How many overrides policies have, and how many bytes they come to. */
export async function sizesOfOverrides(
  db: Db,
  policyIds: readonly number[],
): Promise<
  readonly { readonly policyId: number; readonly count: number; readonly bytes: number }[]
> {
  if (policyIds.length === 0) return []
  const rows = await db
    .selectFrom('overrides')
    .where(sql<boolean>`policy_id = any(${[...policyIds]}::bigint[])`)
    .groupBy('policy_id')
    .select([
      'policy_id as policyId',
      sql<number>`count(*)`.as('count'),
      sql<number>`sum(octet_length(to_json(value)::text) + octet_length(rule::text)
        + case when expires_at is null then 20 else 50 end)`.as('bytes'),
    ])
    .execute()
  return rows.map(({ policyId, count, bytes }) => ({
    policyId,
    count: Number(count),
    bytes: Number(bytes),
  }))
}
