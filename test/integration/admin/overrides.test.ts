import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { readChanges } from '../../../shared/postgres/changes.ts'
import { pageOf } from '../../../shared/protocol/changes-page.ts'
import { changesReplySchema, decodeMessage } from '../../../shared/protocol/policy-messages.ts'
import { type Admin, aLimit, startAdmin } from './admin-harness.ts'

let admin: Admin
beforeAll(async () => {
  admin = await startAdmin()
  await admin.register('us-east-1', 'eu-west-1')
})
afterAll(async () => await admin.close())

const TIERS = { pro: { 'per-second': { capacity: 50_000 } } }
let names = 0

async function aTiered(changes: object = {}): Promise<string> {
  const name = `tiered-${++names}`
  const { status } = await admin.create({ name, match: [{ key: name }], tiers: TIERS, ...changes })
  expect(status).toBe(201)
  return `/v1/domains/api/policies/${name}`
}
const put = (path: string, value: string, body: unknown) =>
  admin.call('PUT', `${path}/overrides/${encodeURIComponent(value)}`, body)

describe('an override', () => {
  it('is a revision of its policy with an audit row, and shows as it was put', async () => {
    const path = await aTiered()
    const before = (await admin.call('GET', path)).body
    const expiresAt = '2099-01-31T00:00:00.000Z'
    const saved = await put(path, 'acme', { tier: 'pro', expiresAt })
    expect(saved).toMatchObject({ status: 200, body: { value: 'acme', tier: 'pro', expiresAt } })
    const after = (await admin.call('GET', path)).body
    expect(after).toMatchObject({ revision: before.revision + 1, overrideCount: 1, tiers: TIERS })
    const audit = await admin.call('GET', '/v1/audit?limit=1')
    expect(audit.body.items[0]).toMatchObject({
      action: 'policy.override',
      before: [],
      after: [{ value: 'acme', tier: 'pro', expiresAt }],
    })
  })

  it('stays through changes of the policy, and goes when it is removed', async () => {
    const path = await aTiered()
    await put(path, 'acme', { deny: true })
    const { etag = '', body } = await admin.call('GET', path)
    const {
      id: _i,
      revision: _r,
      createdAt: _c,
      updatedAt: _u,
      warnings: _w,
      overrideCount: _o,
      emergency: _e,
      ...own
    } = body
    const document = { ...own, description: 'more', limits: [aLimit()] }
    const replaced = await admin.call('PUT', path, document, { 'if-match': etag })
    expect(replaced).toMatchObject({ status: 200, body: { overrideCount: 1 } })
    expect((await admin.call('GET', `${path}/overrides`)).body.items).toEqual([
      { value: 'acme', deny: true },
    ])
    expect((await admin.call('DELETE', `${path}/overrides/acme`)).status).toBe(204)
    expect((await admin.call('DELETE', `${path}/overrides/acme`)).status).toBe(404)
    expect((await admin.call('GET', path)).body.overrideCount).toBe(0)
  })

  it.each([
    ['no rule', {}, 'rule'],
    ['two rules', { deny: true, unlimited: true }, 'rule'],
    ['a tier that the policy has not', { tier: 'gold' }, 'tier'],
    ['a limit that the policy has not', { limits: { other: { capacity: 1 } } }, 'limits.other'],
    [
      'a negative capacity',
      { limits: { 'per-second': { capacity: -1 } } },
      'limits.per-second.capacity',
    ],
    ['a time that has passed', { deny: true, expiresAt: '2001-01-01T00:00:00Z' }, 'expiresAt'],
    ['a time that is none', { deny: true, expiresAt: 'tomorrow' }, 'expiresAt'],
    ['a misspelt field', { teir: 'pro' }, 'teir'],
  ])('with %s is refused by its field, and nothing is stored', async (_mistake, body, field) => {
    const path = await aTiered()
    const refused = await put(path, 'acme', body)
    expect(refused.status).toBe(400)
    expect(refused.body.errors.map((error: { field: string }) => error.field)).toContain(field)
    expect((await admin.call('GET', path)).body.overrideCount).toBe(0)
  })

  it.each([
    [
      'tiers name no limit of the policy',
      { tiers: { pro: { none: { capacity: 5 } } } },
      'tiers.pro.none',
    ],
    ['the tenant is named by no key of the match', { overridesBy: 'none' }, 'overridesBy'],
  ])('has no policy whose %s', async (_mistake, changes, field) => {
    const refused = await admin.create({ name: 'refused', match: [{ key: 'refused' }], ...changes })
    expect(refused).toMatchObject({ status: 400, body: { errors: [{ field }] } })
  })

  it('keeps a tier from being removed while a tenant is on it', async () => {
    const path = await aTiered()
    await put(path, 'acme', { tier: 'pro' })
    const { etag = '', body } = await admin.call('GET', path)
    const { domain, name, match } = body
    const without = { domain, name, match, limits: [aLimit()] }
    const refused = await admin.call('PUT', path, without, { 'if-match': etag })
    expect(refused).toMatchObject({ status: 400, body: { errors: [{ field: 'tiers' }] } })
  })

  it('may have any value, its own characters and length included (B079)', async () => {
    const path = await aTiered()
    for (const value of ['__proto__', 'a/b?c#d', '😀', ' ', 'x'.repeat(1_024), '*']) {
      expect(await put(path, value, { unlimited: true })).toMatchObject({
        status: 200,
        body: { value },
      })
    }
    expect((await put(path, 'x'.repeat(1_025), { unlimited: true })).status).toBe(400)
  })

  it('comes with 9,999 others in ten requests, and all reach a region in one message', async () => {
    const path = await aTiered()
    for (let batch = 0; batch < 10; batch++) {
      const set = Array.from({ length: 1_000 }, (_, i) => ({
        value: `tenant-${batch * 1_000 + i}`,
        tier: 'pro',
      }))
      const { status, body } = await admin.call('POST', `${path}/overrides`, { set })
      expect({ status, count: body.count }).toEqual({ status: 200, count: (batch + 1) * 1_000 })
    }
    expect((await put(path, 'one-more', { tier: 'pro' })).body.errors).toMatchObject([
      { field: 'overrides' },
    ])
    const { revision, changes } = await readChanges(admin.db, { after: 0, limit: 200 })
    const page = pageOf({
      revision,
      members: [],
      formerMembers: [],
      leastIncarnations: {},
      changes: changes.slice(-1),
      hasMore: false,
    })
    const payload = JSON.stringify(page)
    expect(Buffer.byteLength(payload)).toBeLessThan(1_000_000)
    const { changes: read } = decodeMessage(changesReplySchema, payload)
    expect(read[0]).toMatchObject({ kind: 'policy', policy: { overrides: { length: 10_000 } } })
  })
})
