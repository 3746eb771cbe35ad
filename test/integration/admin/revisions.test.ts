import { sql } from 'kysely'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type Admin, aLimit, aPolicy, POLICY, startAdmin } from './admin-harness.ts'

let admin: Admin
beforeAll(async () => {
  admin = await startAdmin()
  await admin.register('us-east-1', 'eu-west-1')
})
afterAll(async () => await admin.close())

describe('the history of revisions', () => {
  it('has one row for each change, with its author, reason and request, in its transaction', async () => {
    const { etag = '' } = await admin.create()
    const headers = { 'if-match': etag, 'x-change-reason': 'more traffic', 'x-request-id': 'req-1' }
    const body = aPolicy({ limits: [aLimit({ capacity: 20_000 })] })
    const put = await admin.call('PUT', POLICY, body, headers)
    const { rows } = await sql`
      select revisions.*, revision_changes.*, audit.seq from revisions
      join revision_changes on revision = number join audit on audit.revision = number
      join policies on policies.revision = number and policies.xmin = revisions.xmin
      where number = ${put.body.revision}`.execute(admin.db)
    expect(rows).toHaveLength(1)
    expect(rows[0]).toMatchObject({
      first: put.body.revision,
      actor: 'admin-token',
      reason: 'more traffic',
      request_id: 'req-1',
      action: 'policy.update',
      object_kind: 'policy',
      object_id: 'api/per-tenant',
      before: { limits: [{ capacity: 10_000 }] },
      after: { limits: [{ capacity: 20_000 }] },
    })
  })

  it('has no gaps, and says of every number of the plane who raised it to that', async () => {
    const { rows } = await sql<{ number: number; first: number }>`
      select number, first from revisions order by number`.execute(admin.db)
    const { rows: plane } = await sql<{ revision: number }>`select revision from plane`.execute(
      admin.db,
    )
    expect(rows.map(({ first }) => first)).toEqual([
      1,
      ...rows.slice(0, -1).map(({ number }) => number + 1),
    ])
    expect(rows.at(-1)?.number).toBe(plane[0]?.revision)
  })

  it('cannot be changed, whoever connects', async () => {
    for (const table of ['revisions', 'revision_changes']) {
      const remove = sql`delete from ${sql.table(table)}`.execute(admin.db)
      await expect(remove).rejects.toThrow('append-only')
    }
  })
})
