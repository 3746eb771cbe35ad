import { sql } from 'kysely'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { forgetKeys } from '../../../shared/postgres/idempotency.ts'
import { type Admin, aPolicy, startAdmin } from './admin-harness.ts'

let admin: Admin
let nextName = 0
let name: string
let path: string

beforeAll(async () => {
  admin = await startAdmin({ poolMax: 4, acquireTimeoutMs: 5_000 })
  await admin.register('us-east-1', 'eu-west-1')
})
afterAll(async () => await admin.close())
beforeEach(() => {
  name = `policy-${++nextName}`
  path = `/v1/domains/api/policies/${name}`
})

const own = (changes: object = {}) => aPolicy({ name, match: [{ key: name }], ...changes })
const create = (key: string, changes: object = {}, headers: Record<string, string> = {}) =>
  admin.call('POST', '/v1/policies', own(changes), { 'idempotency-key': key, ...headers })
const count = async (table: string): Promise<number> =>
  (await sql`select 1 from ${sql.table(table)}`.execute(admin.db)).rows.length
const aged = (key: string, hours: number) =>
  sql`update idempotency_keys set at = at - make_interval(hours => ${hours}) where key = ${key}`.execute(
    admin.db,
  )

describe('a write that is repeated with its key', () => {
  it('is answered as before, says so, and changes nothing again', async () => {
    const first = await create('k-1')
    const [revisions, changes] = [await count('revisions'), admin.changes()]
    const again = await create('k-1')
    expect(first.status).toBe(201)
    expect(first.headers['idempotent-replayed']).toBeUndefined()
    expect(again).toMatchObject({
      status: 201,
      body: first.body,
      etag: first.etag,
      headers: { 'idempotent-replayed': 'true', location: path },
    })
    expect(await count('revisions')).toBe(revisions)
    expect(admin.changes()).toBe(changes)
  })

  it('is answered as before without a body too', async () => {
    const { etag = '' } = await create('k-made')
    const remove = () =>
      admin.call('DELETE', path, undefined, { 'if-match': etag, 'idempotency-key': 'k-gone' })
    expect(await remove()).toMatchObject({ status: 204, body: null })
    expect(await remove()).toMatchObject({
      status: 204,
      body: null,
      headers: { 'idempotent-replayed': 'true' },
    })
  })

  it('is refused with 422 when it asks for something else, by its body, path or condition', async () => {
    await create('k-2')
    const other = [
      await create('k-2', { description: 'other' }),
      await create('k-2', {}, { 'if-none-match': '*' }),
      await admin.call('PUT', '/v1/regions/ap-south-1', {}, { 'idempotency-key': 'k-2' }),
    ]
    for (const answer of other) {
      expect(answer).toMatchObject({
        status: 422,
        body: { code: 'QUOTA_KEY_REUSED', errors: [{ field: 'idempotency-key' }] },
      })
    }
    expect((await admin.call('GET', '/v1/regions/ap-south-1')).status).toBe(404)
  })

  it('is carried out once when many come at the same time', async () => {
    const before = await count('audit')
    const answers = await Promise.all(Array.from({ length: 12 }, () => create('k-3')))
    expect(answers.map(({ status }) => status)).toEqual(Array(12).fill(201))
    expect(answers.filter(({ headers }) => headers['idempotent-replayed'] !== 'true')).toHaveLength(
      1,
    )
    expect(await count('audit')).toBe(before + 1)
  })

  it('is tried again when it was refused, since nothing of it had happened', async () => {
    const put = () => admin.call('PUT', path, own(), { 'if-match': '*', 'idempotency-key': 'k-4' })
    expect((await put()).status).toBe(412)
    await create('k-5')
    expect((await put()).status).toBe(200)
  })

  it('is carried out or not together with its key, whatever fails before the commit', async () => {
    await sql`alter table idempotency_keys add constraint never check (answer is null or key <> 'k-6') not valid`.execute(
      admin.db,
    )
    expect((await create('k-6')).status).toBe(500)
    expect((await admin.call('GET', path)).status).toBe(404)
    await sql`alter table idempotency_keys drop constraint never`.execute(admin.db)
    expect((await create('k-6')).status).toBe(201)
  })

  it('is a new one after a day', async () => {
    const key = 'k-7'
    await create(key)
    await aged(key, 25)
    expect(await create(key)).toMatchObject({ status: 409, body: { code: 'QUOTA_ALREADY_EXISTS' } })
  })

  it("does not show a token again, and keeps nothing of another caller's keys from it", async () => {
    const ask = { name: 'once', scopes: ['quota:write'] }
    const make = () => admin.call('POST', '/v1/tokens', ask, { 'idempotency-key': 'k-8' })
    const { body } = await make()
    expect(await make()).toMatchObject({ status: 409, body: { code: 'QUOTA_ANSWER_NOT_KEPT' } })
    const { rows } = await sql`select * from idempotency_keys where key = 'k-8'`.execute(admin.db)
    expect(JSON.stringify(rows)).not.toContain(body.token)
    const theirs = await create('k-8', {}, { authorization: `Bearer ${body.token}` })
    expect(theirs.status).toBe(201)
  })

  it.each(['', 'a b', 'é', 'x'.repeat(256)])('is refused with the key "%s"', async (key) => {
    const answer = await create(key)
    expect(answer).toMatchObject({
      status: 400,
      body: { errors: [{ field: 'idempotency-key' }] },
    })
  })
})

describe('keys', () => {
  it('are forgotten after a day', async () => {
    await create('k-9')
    await aged('k-9', 25)
    expect(await forgetKeys(admin.db)).toBe(false)
    const { rows } = await sql<{ key: string }>`select key from idempotency_keys`.execute(admin.db)
    expect(rows.map(({ key }) => key)).not.toContain('k-9')
    expect(rows.length).toBeGreaterThan(0)
  })
})

describe('a reason', () => {
  it('may be in any language', async () => {
    const reason = `UTF-8''${encodeURIComponent('für Köln')}`
    await create('k-10', {}, { 'x-change-reason': reason })
    const { body } = await admin.call('GET', `/v1/audit?objectId=api/${name}`)
    expect(body.items[0].reason).toBe('für Köln')
  })
})
