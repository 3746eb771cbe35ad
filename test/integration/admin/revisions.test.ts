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

describe('revisions', () => {
  const path = '/v1/domains/history/policies/p'
  const put = (capacity: number) =>
    admin.call(
      'PUT',
      path,
      aPolicy({ domain: 'history', name: 'p', limits: [aLimit({ capacity })] }),
      { 'if-match': '*', 'x-change-reason': `to ${capacity}` },
    )
  let created: number
  beforeAll(async () => {
    const first = await admin.create({ domain: 'history', name: 'p' })
    created = first.body.revision
    await put(100)
    await put(200)
  })

  it('are listed newest first in pages, each with what it was about', async () => {
    const seen: number[] = []
    let cursor = ''
    do {
      const { body } = await admin.call('GET', `/v1/revisions?limit=2${cursor}`)
      seen.push(...body.items.map(({ revision }: { revision: number }) => revision))
      cursor = body.next === null ? '' : `&cursor=${body.next}`
    } while (cursor !== '')
    const newest = (await admin.call('GET', path)).body.revision
    expect(seen).toEqual(Array.from({ length: newest }, (_, at) => newest - at))
    const { body, etag } = await admin.call('GET', '/v1/revisions?limit=1')
    expect(etag).toBe(`"${newest}"`)
    expect(body.items[0]).toMatchObject({
      actor: 'admin-token',
      reason: 'to 200',
      changeCount: 1,
      changes: [{ action: 'policy.update', kind: 'policy', id: 'history/p' }],
    })
    expect(body.items[0].changes[0]).not.toHaveProperty('after')
  })

  it('show the documents before and after, by any number that they took', async () => {
    const documents = ['x', 'y'].map((name) => aPolicy({ domain: name, name }))
    const { body: applied } = await admin.call('POST', '/v1/apply', { documents })
    const { body } = await admin.call('GET', `/v1/revisions/${applied.items[0].revision}`)
    expect(body).toMatchObject({
      revision: applied.revision,
      first: applied.items[0].revision,
      changes: [
        { id: 'x/x', before: null, after: { name: 'x' } },
        { id: 'y/y', before: null, after: { name: 'y' } },
      ],
    })
    expect(await admin.call('GET', '/v1/revisions/999999')).toMatchObject({
      status: 404,
      body: { code: 'QUOTA_REVISION_NOT_FOUND' },
    })
    expect((await admin.call('GET', '/v1/revisions/x')).status).toBe(400)
  })

  it('differ by fields and as text, from the one before, from any other, and backwards', async () => {
    const { body: last } = await admin.call('GET', `/v1/revisions/${created + 2}/diff`)
    expect(last).toMatchObject({ from: created + 1, to: created + 2 })
    expect(last.items).toMatchObject([
      {
        kind: 'policy',
        id: 'history/p',
        change: 'changed',
        fields: [{ field: 'limits[per-second].capacity', before: 100, after: 200 }],
      },
    ])
    expect(last.items[0].text).toContain('-    capacity: 100\n+    capacity: 200\n')
    const since = await admin.call('GET', `/v1/revisions/${created + 2}/diff?against=${created}`)
    expect(since.body.items[0].fields).toMatchObject([{ before: 10_000, after: 200 }])
    const back = await admin.call('GET', `/v1/revisions/${created}/diff?against=${created + 2}`)
    expect(back.body.items[0].fields).toMatchObject([{ before: 200, after: 10_000 }])
    const all = await admin.call('GET', `/v1/revisions/${created + 2}/diff?against=0`)
    expect(all.body.items).toMatchObject([{ id: 'api/per-tenant', change: 'added' }, {}])
  })
})

describe('a rollback', () => {
  const domain = 'back'
  const at = (name: string) => `/v1/domains/${domain}/policies/${name}`
  const own = (name: string, changes: object = {}) =>
    aPolicy({ domain, name, match: [{ key: name }], ...changes })
  const tiers = { pro: { 'per-second': { capacity: 9 } } }
  const state = async () => {
    const { body } = await admin.call('GET', `/v1/policies?domain=${domain}`)
    const policies = body.items.map((item: Record<string, unknown>) => {
      const { id: _id, revision: _revision, createdAt: _created, updatedAt: _at, ...rest } = item
      const limits = (rest['limits'] as Record<string, unknown>[]).map(
        ({ id: _limit, ...limit }) => limit,
      )
      return { ...rest, limits }
    })
    const overrides = await admin.call('GET', `${at('a')}/overrides`)
    return { policies, overrides: overrides.body.items }
  }
  const rollBack = (to: number, headers: Record<string, string> = {}, body: object = {}) =>
    admin.call('POST', `/v1/revisions/${to}/rollback`, body, headers)

  it('restores policies and overrides as they were, as one new revision, whatever was done since', async () => {
    const overrides = [
      { value: 'acme', tier: 'pro' },
      { value: 'a b/c', limits: { 'per-second': { capacity: 7, burst: 8 } } },
    ]
    const documents = [own('a', { tiers, overrides }), own('b'), own('c')]
    const { body: applied } = await admin.call('POST', '/v1/apply', { documents })
    const before = await state()
    const kept = (await admin.call('GET', at('b'))).body.limits[0].id

    await admin.call('PUT', `${at('a')}/overrides/acme`, { deny: true })
    await admin.call('PUT', `${at('a')}/overrides/new`, { unlimited: true })
    await admin.call('DELETE', at('a'), undefined, { 'if-match': '*' })
    await admin.call('PUT', at('b'), own('b', { limits: [aLimit({ capacity: 5 })] }), {
      'if-match': '*',
    })
    await admin.call('DELETE', at('c'), undefined, { 'if-match': '*' })
    // What was free for others is taken back, also from what came since.
    await admin.call('POST', '/v1/policies', own('d', { match: [{ key: 'c' }] }))

    const rolled = await rollBack(applied.revision, {}, { reason: 'the change was wrong' })
    expect(rolled).toMatchObject({ status: 200, body: { restored: applied.revision } })
    expect(await state()).toEqual(before)
    expect((await admin.call('GET', at('b'))).body.limits[0].id).toBe(kept)
    const outcomes = rolled.body.items.map(({ name, outcome }: Record<string, string>) => [
      name,
      outcome,
    ])
    expect(Object.fromEntries(outcomes)).toEqual({
      a: 'created',
      b: 'updated',
      c: 'created',
      d: 'deleted',
    })
    const warned = rolled.body.items.filter(
      ({ warnings }: { warnings: unknown[] }) => warnings.length > 0,
    )
    expect(warned.map(({ name }: { name: string }) => name)).toEqual(['a', 'c'])
    expect(warned[0].warnings[0].message).toContain('counters start with nothing spent')
    const { body: revision } = await admin.call('GET', `/v1/revisions/${rolled.body.revision}`)
    expect(revision).toMatchObject({ reason: 'the change was wrong' })
    // Back and forth: the rollback is a revision like any other.
    await rollBack(rolled.body.revision - 100 > 0 ? applied.first : applied.revision)
    expect(await state()).toEqual(before)
  })

  it('gives a limit that comes back an id that none ever had', async () => {
    const { body: made } = await admin.call('POST', '/v1/policies', own('ids'))
    await admin.call('DELETE', at('ids'), undefined, { 'if-match': '*' })
    await rollBack(made.revision)
    const { body: again } = await admin.call('GET', at('ids'))
    expect(again.limits[0].id).toBeGreaterThan(made.limits[0].id)
  })

  it('changes nothing when one part cannot be restored, and says which', async () => {
    await admin.register('ap-south-1')
    const split = { 'us-east-1': 50, 'ap-south-1': 50 }
    const lost = own('lost', { limits: [aLimit({ split })] })
    const { body } = await admin.call('POST', '/v1/apply', { documents: [lost, own('found')] })
    await admin.call('DELETE', at('lost'), undefined, { 'if-match': '*' })
    await admin.call('DELETE', at('found'), undefined, { 'if-match': '*' })
    await admin.call('DELETE', '/v1/regions/ap-south-1', undefined, { 'if-match': '*' })
    const before = await state()
    expect(await rollBack(body.revision)).toMatchObject({
      status: 400,
      body: { errors: [{ field: 'back/lost.limits[0].split.ap-south-1' }] },
    })
    expect(await state()).toEqual(before)
  })

  it('leaves out overrides that have expired since, and counts what it does not restore', async () => {
    const expiresAt = new Date(admin.clock.nowMs + 1_000).toISOString()
    await admin.call('POST', '/v1/policies', own('timed', { tiers }))
    const { etag = '' } = await admin.call('PUT', `${at('timed')}/overrides/acme`, {
      deny: true,
      expiresAt,
    })
    await admin.call('DELETE', `${at('timed')}/overrides/acme`)
    await admin.call('PUT', '/v1/regions/us-east-1', { description: 'east' }, { 'if-match': '*' })
    admin.clock.nowMs += 2_000
    const { body } = await rollBack(Number(etag.replaceAll('"', '')))
    expect(body).toMatchObject({
      revision: null,
      expired: ['back/timed acme'],
      kept: { region: 1 },
    })
  })

  it('is refused when the plane was changed since the If-Match', async () => {
    const { etag = '' } = await admin.call('GET', '/v1/revisions?limit=1')
    await admin.call('POST', '/v1/policies', own('later'))
    expect((await rollBack(1, { 'if-match': etag })).status).toBe(412)
    expect((await admin.call('GET', at('later'))).status).toBe(200)
  })
})
