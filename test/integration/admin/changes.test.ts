import { sql } from 'kysely'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type Admin, aPolicy, POLICY, startAdmin } from './admin-harness.ts'

let admin: Admin
beforeAll(async () => {
  admin = await startAdmin({ poolMax: 2, acquireTimeoutMs: 5_000 })
  await admin.register('us-east-1', 'eu-west-1')
})
afterAll(async () => await admin.close())

const put = (description: string, etag: string) =>
  admin.call('PUT', POLICY, aPolicy({ description }), { 'if-match': etag })

describe('changes at once', () => {
  it('over a pool of two all finish, and one of ten edits of a revision wins (B134)', async () => {
    const { etag = '', body } = await admin.create()
    const edits = Array.from({ length: 10 }, (_, i) => put(`edit ${i}`, etag))
    const answers = await Promise.all(edits)
    const statuses = answers.map((answer) => answer.status)
    expect(statuses.filter((status) => status === 200)).toHaveLength(1)
    expect(statuses.filter((status) => status === 412)).toHaveLength(9)
    const winner = answers.find((answer) => answer.status === 200)
    const { body: now } = await admin.call('GET', POLICY)
    expect(now).toEqual(winner?.body)
    expect(now.revision).toBe(body.revision + 1)
    const audit = await admin.call('GET', '/v1/audit?objectKind=policy')
    expect(audit.body.items.map((item: { action: string }) => item.action)).toEqual([
      'policy.update',
      'policy.create',
    ])
  })

  it('of different policies take one revision each, without gaps', async () => {
    const creations = Array.from({ length: 10 }, (_, i) =>
      admin.create({ name: `parallel-${i}`, match: [{ key: `parallel-${i}` }] }),
    )
    const revisions = (await Promise.all(creations)).map((answer) => answer.body.revision)
    const first = Math.min(...revisions)
    const sorted = revisions.toSorted((a: number, b: number) => a - b)
    expect(sorted).toEqual(revisions.map((_, i) => first + i))
  })
})

describe('the audit log', () => {
  it('holds who changed what, from what to what, in the transaction of the change', async () => {
    const { etag = '' } = await admin.call('GET', POLICY)
    const { body } = await put('audited', etag)
    const { body: audit } = await admin.call('GET', '/v1/audit?limit=1&objectId=api/per-tenant')
    expect(audit.items[0]).toMatchObject({
      actor: 'admin-token',
      action: 'policy.update',
      objectKind: 'policy',
      objectId: 'api/per-tenant',
      before: { limits: [{ capacity: 10_000 }] },
      after: { description: 'audited' },
      reason: null,
    })
    const { rows } = await sql`
      select 1 from audit join policies on policies.xmin = audit.xmin
      where audit.seq = ${audit.items[0].seq} and policies.revision = ${body.revision}`.execute(
      admin.db,
    )
    expect(rows).toHaveLength(1)
  })

  it('keeps nothing of a change that was refused, and the change nothing without its row', async () => {
    const count = async () => (await sql`select 1 from audit`.execute(admin.db)).rows.length
    const before = await count()
    await put('refused', '"1"')
    expect(await count()).toBe(before)

    const { etag = '', body } = await admin.call('GET', POLICY)
    await sql`alter table audit add constraint never check (action <> 'policy.update') not valid`.execute(
      admin.db,
    )
    const failed = await put('unaudited', etag)
    expect(failed).toMatchObject({ status: 500, body: { code: 'QUOTA_INTERNAL' } })
    expect(JSON.stringify(failed.body)).not.toContain('constraint')
    expect((await admin.call('GET', POLICY)).body).toEqual(body)
    await sql`alter table audit drop constraint never`.execute(admin.db)
  })

  it('comes in pages, newest first', async () => {
    const seen: number[] = []
    let cursor = ''
    do {
      const { body } = await admin.call('GET', `/v1/audit?limit=5${cursor}`)
      seen.push(...body.items.map((item: { seq: number }) => item.seq))
      cursor = body.next === null ? '' : `&cursor=${body.next}`
    } while (cursor !== '')
    expect(seen).toEqual(seen.toSorted((a, b) => b - a))
    expect(seen.length).toBeGreaterThan(5)
  })
})

describe('a store that does not answer', () => {
  it('gives a fast 503, and requests go on once it does (B133)', async () => {
    const slow = await startAdmin({ poolMax: 1, acquireTimeoutMs: 200 })
    let release: () => void = () => {}
    const released = new Promise<void>((resolve) => {
      release = resolve
    })
    const held = slow.db.transaction().execute(async (trx) => {
      await sql`select 1`.execute(trx)
      await released
    })
    const startedMs = performance.now()
    const answers = await Promise.all(
      Array.from({ length: 50 }, () => slow.call('GET', '/v1/policies')),
    )
    expect(performance.now() - startedMs).toBeLessThan(2_000)
    expect(new Set(answers.map((answer) => answer.status))).toEqual(new Set([503]))
    expect(answers[0]?.body.code).toBe('QUOTA_DATABASE_UNAVAILABLE')
    expect((await slow.call('GET', '/v1/shares')).status).toBe(200)
    release()
    await held
    expect((await slow.call('GET', '/v1/policies')).status).toBe(200)
    await slow.close()
  })
})

describe('a reply', () => {
  it('has only the fields of its schema, whatever columns a row has (B131)', async () => {
    await sql`alter table policies add column internal_note text default 'secret note'`.execute(
      admin.db,
    )
    await sql`alter table regions add column internal_note text default 'secret note'`.execute(
      admin.db,
    )
    await sql`alter table audit add column internal_note text default 'secret note'`.execute(
      admin.db,
    )
    for (const table of ['overrides', 'tokens', 'domains', 'revisions', 'emergency_actions']) {
      const note = sql.raw(
        `alter table ${table} add column internal_note text default 'secret note'`,
      )
      await sql`${note}`.execute(admin.db)
    }
    const override = await admin.call('PUT', `${POLICY}/overrides/acme`, { deny: true })
    const token = await admin.call('POST', '/v1/tokens', { name: 'noted', scopes: ['quota:read'] })
    expect([override.status, token.status]).toEqual([200, 201])
    expect(JSON.stringify([override.body, token.body])).not.toContain('secret note')
    await admin.follower.stepOnce()
    const urls = [
      '/v1/policies',
      POLICY,
      `${POLICY}/status`,
      `${POLICY}/overrides`,
      '/v1/tokens',
      '/v1/domains',
      '/v1/domains/api',
      '/v1/revisions',
      '/v1/emergency-actions',
      '/v1/usage/history?domain=api&policy=per-tenant',
      '/v1/rollouts/latest',
      '/v1/doctor',
      '/v1/regions',
      '/v1/regions/us-east-1',
    ]
    for (const url of [...urls, '/v1/audit', '/v1/shares', '/v1/usage']) {
      const { status, body } = await admin.call('GET', url)
      expect(status, url).toBe(200)
      expect(JSON.stringify(body), url).not.toContain('secret note')
    }
  })
})
