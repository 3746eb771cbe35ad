import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { type Admin, aLimit, aPolicy, startAdmin } from './admin-harness.ts'

let admin: Admin
let nextName = 0
let name: string
let path: string

beforeAll(async () => {
  admin = await startAdmin()
  await admin.register('us-east-1', 'eu-west-1')
})
afterAll(async () => await admin.close())
beforeEach(() => {
  name = `policy-${++nextName}`
  path = `/v1/domains/api/policies/${name}`
})

/** A document of this test's own policy; its match is its own too. */
const own = (changes: object = {}) => aPolicy({ name, match: [{ key: name }], ...changes })
const put = (body: object, headers: Record<string, string> = { 'if-none-match': '*' }) =>
  admin.call('PUT', path, body, headers)

describe('a policy', () => {
  it('is created, read, replaced and deleted under its revisions', async () => {
    const created = await put(own())
    expect(created).toMatchObject({ status: 201, body: { name, description: '' } })
    expect(created.etag).toBe(`"${created.body.revision}"`)
    expect(await admin.call('GET', path)).toMatchObject({ status: 200, body: created.body })

    const replaced = await put(own({ description: 'more' }), { 'if-match': created.etag ?? '' })
    expect(replaced).toMatchObject({ status: 200, body: { description: 'more' } })
    expect(replaced.body.revision).toBeGreaterThan(created.body.revision)

    const deleted = await admin.call('DELETE', path, undefined, { 'if-match': replaced.etag ?? '' })
    expect(deleted).toMatchObject({ status: 204, body: null })
    expect(await admin.call('GET', path)).toMatchObject({
      status: 404,
      body: { code: 'QUOTA_POLICY_NOT_FOUND' },
    })
  })

  it('is created by POST once; a second one is refused with 409', async () => {
    const created = await admin.call('POST', '/v1/policies', own())
    expect(created).toMatchObject({ status: 201, headers: { location: path } })
    expect(await admin.call('POST', '/v1/policies', own())).toMatchObject({
      status: 409,
      body: { code: 'QUOTA_ALREADY_EXISTS' },
    })
  })

  it('shows what its operator wrote and what is in force', async () => {
    const { body } = await put(own())
    expect(body.limits[0]).toEqual({
      ...aLimit(),
      floorPercent: 2,
      burst: 10_000,
      burstFollowsCapacity: true,
      shards: 1,
      leases: 'auto',
      id: body.limits[0].id,
      usageEpoch: 0,
      epoch: 1,
      isEpochOpen: false,
      base: { 'us-east-1': 600_000, 'eu-west-1': 400_000 },
      inForce: { capacity: 10_000, burst: 10_000, lending: 'free' },
    })
  })

  it('too small for its regions is refused with the ways out, and saved with a warning once accepted', async () => {
    const small = { ...own(), limits: [aLimit({ capacity: 1 })] }
    const refused = await put(small)
    expect(refused).toMatchObject({
      status: 400,
      body: { errors: [{ field: 'limits[0].capacity' }] },
    })
    expect(refused.body.errors[0].fix).toContain('mode "eventual"')
    expect((await admin.call('GET', path)).status).toBe(404)
    const saved = await put({ ...small, acceptSmallLimits: true })
    expect(saved).toMatchObject({
      status: 201,
      body: { warnings: [{ field: 'limits[0].capacity' }] },
    })
  })

  it('tells of each change once, and of none that changes nothing', async () => {
    const before = admin.changes()
    const created = await put(own())
    expect(admin.changes()).toBe(before + 1)
    const same = await put(own(), { 'if-match': created.etag ?? '' })
    expect(same).toMatchObject({ status: 200, body: { revision: created.body.revision } })
    expect(admin.changes()).toBe(before + 1)
  })

  it('keeps the id of a limit whose numbers change, so its counters go on', async () => {
    const created = await put(own())
    const changed = await put(
      own({ limits: [aLimit({ capacity: 20_000, windowMs: 2_000, burst: 5 })] }),
      { 'if-match': created.etag ?? '' },
    )
    expect(changed.body.limits[0]).toMatchObject({
      id: created.body.limits[0].id,
      capacity: 20_000,
    })
  })

  it('gives a limit of another algorithm a new id, so nothing is carried over wrongly', async () => {
    const created = await put(own())
    const changed = await put(own({ limits: [aLimit({ algorithm: 'fixed_window' })] }), {
      'if-match': created.etag ?? '',
    })
    expect(changed.body.limits[0].id).toBeGreaterThan(created.body.limits[0].id)
    expect(changed.body.limits[0]).toMatchObject({ epoch: 1, isEpochOpen: false })
  })

  it('keeps the order of its limits, and each id, when they change places', async () => {
    const limits = ['a', 'b', 'c'].map((limit) => aLimit({ name: limit }))
    const created = await put(own({ limits }))
    const turned = await put(own({ limits: limits.toReversed() }), {
      'if-match': created.etag ?? '',
    })
    const idsOf = (answer: typeof created) =>
      answer.body.limits.map((limit: { id: number }) => limit.id)
    expect(turned.body.limits.map((limit: { name: string }) => limit.name)).toEqual(['c', 'b', 'a'])
    expect(idsOf(turned)).toEqual(idsOf(created).toReversed())
  })

  it('lets a burst that was left out follow the capacity, and keeps one that was given (B121)', async () => {
    const created = await put(own())
    const grown = await put(own({ limits: [aLimit({ capacity: 50_000 })] }), {
      'if-match': created.etag ?? '',
    })
    expect(grown.body.limits[0]).toMatchObject({ burst: 50_000, burstFollowsCapacity: true })
    const given = await put(own({ limits: [aLimit({ capacity: 60_000, burst: 7 })] }), {
      'if-match': grown.etag ?? '',
    })
    expect(given.body.limits[0]).toMatchObject({ burst: 7, burstFollowsCapacity: false })
  })

  it('may not have the match of another policy of its domain', async () => {
    await put(own())
    const twin = await admin.call('POST', '/v1/policies', own({ name: `${name}-twin` }))
    expect(twin).toMatchObject({ status: 409, body: { errors: [{ field: 'match' }] } })
    const together = own({ name: `${name}-twin`, match: [{ key: name, shared: true }] })
    expect(await admin.call('POST', '/v1/policies', together)).toMatchObject({ status: 409 })
    const elsewhere = own({ name: `${name}-twin`, domain: 'other' })
    expect(await admin.call('POST', '/v1/policies', elsewhere)).toMatchObject({ status: 201 })
  })

  it('may be of a domain that a gateway names in its own way, share a counter and replace others', async () => {
    const special = own({
      domain: 'edge_proxy.Example',
      match: [{ key: name, value: 'files/*', shared: true }],
      replaces: ['elsewhere'],
    })
    const created = await admin.call('POST', '/v1/policies', special)
    expect(created).toMatchObject({ status: 201, body: { ...special } })
    const again = `/v1/domains/edge_proxy.Example/policies/${name}`
    expect((await admin.call('GET', again)).body).toMatchObject(special)
    const apart = { ...special, name: `${name}-apart`, match: [{ key: name, value: 'files/*' }] }
    expect(await admin.call('POST', '/v1/policies', apart)).toMatchObject({ status: 409 })
  })

  it('is saved with a description of any size up to the bound, in bytes (B130)', async () => {
    const sizes = [7_999, 8_000, 50_000]
    let etag: string | undefined
    for (const description of [...sizes.map((size) => 'x'.repeat(size)), 'é'.repeat(25_000)]) {
      const saved = await put(
        own({ description }),
        etag === undefined ? { 'if-none-match': '*' } : { 'if-match': etag },
      )
      expect(saved.status).toBe(etag === undefined ? 201 : 200)
      expect((await admin.call('GET', path)).body.description).toBe(description)
      etag = saved.etag
    }
    expect(
      await put(own({ description: 'x'.repeat(65_537) }), { 'if-match': etag ?? '' }),
    ).toMatchObject({ status: 400, body: { errors: [{ field: 'description' }] } })
    expect(
      await put(own({ description: 'x'.repeat(300_000) }), { 'if-match': etag ?? '' }),
    ).toMatchObject({ status: 413 })
  })

  it.each([
    [100, { a: 33.34, b: 33.33, c: 33.33 }, [34, 33, 33]],
    [2, { a: 25, b: 25, c: 25, d: 25 }, [1, 1, 0, 0]],
    [1_000, { a: 70, b: 20, c: 10 }, [700, 200, 100]],
    [10, { a: 90, b: 9, c: 1 }, [9, 1, 0]],
    [1, { a: 33.34, b: 33.33, c: 33.33 }, [1, 0, 0]],
  ])(
    'of capacity %d split as %j comes to whole tokens that sum to it (B148)',
    async (capacity, split, tokens) => {
      await admin.register('a', 'b', 'c', 'd')
      const { body } = await put(
        own({ acceptSmallLimits: true, limits: [aLimit({ capacity, split })] }),
      )
      const { base } = body.limits[0]
      const shares = Object.keys(split).map((region) =>
        Math.round(((base[region] ?? 0) * capacity) / 1_000_000),
      )
      expect(shares).toEqual(tokens)
      const units = Object.values<number>(base).reduce((sum, part) => sum + part, 0)
      expect(units).toBe(1_000_000)
    },
  )

  it('reset starts its counters anew as a new usage epoch, again and again (B145)', async () => {
    const created = await put(own())
    const reset = await admin.call('POST', `${path}/reset`)
    expect(reset).toMatchObject({ status: 200, body: { limits: [{ usageEpoch: 1 }] } })
    expect(reset.body.revision).toBeGreaterThan(created.body.revision)
    expect((await admin.call('POST', `${path}/reset`)).body.limits[0].usageEpoch).toBe(2)
    const stale = await admin.call('POST', `${path}/reset`, undefined, {
      'if-match': created.etag ?? '',
    })
    expect(stale.status).toBe(412)
  })
})

describe('the list of policies', () => {
  it('comes in pages that hold each policy once, in the order of names', async () => {
    for (const each of ['c', 'a', 'b']) {
      const policy = aPolicy({ domain: 'paged', name: each, match: [{ key: each }] })
      await admin.call('POST', '/v1/policies', policy)
    }
    const names: string[] = []
    let cursor = ''
    do {
      const page = await admin.call('GET', `/v1/policies?domain=paged&limit=1${cursor}`)
      expect(page.body.items).toHaveLength(1)
      names.push(page.body.items[0].name)
      cursor = page.body.next === null ? '' : `&cursor=${page.body.next}`
    } while (cursor !== '')
    expect(names).toEqual(['a', 'b', 'c'])
  })

  it.each([
    ['limit=0', 'limit'],
    ['limit=101', 'limit'],
    ['limit=ten', 'limit'],
    ['cursor=nonsense', 'cursor'],
    ['cursor=WyJ4Il0', 'cursor'],
    ['domain=no/thing', 'domain'],
    ['limt=5', 'limt'],
  ])('refuses ?%s by its name', async (query, field) => {
    const answer = await admin.call('GET', `/v1/policies?${query}`)
    expect(answer).toMatchObject({ status: 400, body: { errors: [{ field }] } })
  })

  it('finds policies by a part of their name with its domain, or of their description', async () => {
    await admin.register('us-east-1', 'eu-west-1')
    const described = { name: 'found-one', description: 'For 100% of the Shops' }
    await admin.create({ ...described, match: [{ key: 'shop' }] })
    const found = async (search: string) => {
      const path = `/v1/policies?search=${encodeURIComponent(search)}`
      const { body } = await admin.call('GET', path)
      return body.items.map(({ name }: { name: string }) => name)
    }
    expect(await found('API/FOUND')).toEqual(['found-one'])
    expect(await found('100% of the shops')).toEqual(['found-one'])
    expect(await found('100_')).toEqual([])
  })
})

describe('a precondition', () => {
  it('is required of every change', async () => {
    const { status, body } = await put(own(), {})
    expect({ status, code: body.code }).toEqual({
      status: 428,
      code: 'QUOTA_PRECONDITION_REQUIRED',
    })
    await put(own())
    expect((await put(own(), {})).status).toBe(428)
    expect((await admin.call('DELETE', path)).status).toBe(428)
  })

  it.each([
    ['If-None-Match on one that exists', { 'if-none-match': '*' }],
    ['an older revision', { 'if-match': '"1"' }],
    ['a weak tag', { 'if-match': 'W/"0"' }],
    ['a tag of another kind', { 'if-match': '"abc"' }],
  ])('fails with 412 for %s, and nothing changes', async (_what, headers) => {
    const created = await put(own())
    const refused = await put(own({ description: 'lost' }), headers)
    expect(refused).toMatchObject({ status: 412, body: { code: 'QUOTA_REVISION_CONFLICT' } })
    expect((await admin.call('GET', path)).body).toEqual(created.body)
  })

  it('If-Match fails with 412 for a policy that does not exist, and a delete of it with 404', async () => {
    expect((await put(own(), { 'if-match': '"1"' })).status).toBe(412)
    expect((await put(own(), { 'if-match': '*' })).status).toBe(412)
    const gone = await admin.call('DELETE', path, undefined, { 'if-match': '"1"' })
    expect(gone.status).toBe(404)
  })

  it('may name several revisions, or any', async () => {
    const created = await put(own())
    const several = await put(own({ description: 'a' }), { 'if-match': `"1", ${created.etag}` })
    expect(several.status).toBe(200)
    expect((await put(own({ description: 'b' }), { 'if-match': '*' })).status).toBe(200)
  })

  it.each([
    [{ 'if-match': '12' }, 'if-match'],
    [{ 'if-none-match': '"12"' }, 'if-none-match'],
    [{ 'if-none-match': '*', 'if-match': '"12"' }, 'if-none-match'],
  ])('that makes no sense (%j) is refused by the header', async (headers, field) => {
    expect(await put(own(), headers)).toMatchObject({ status: 400, body: { errors: [{ field }] } })
  })

  it('on a read spares the body of what the reader has', async () => {
    const { etag = '' } = await put(own())
    const again = await admin.call('GET', path, undefined, { 'if-none-match': etag })
    expect(again).toMatchObject({ status: 304, body: null, etag })
    expect((await admin.call('GET', path, undefined, { 'if-none-match': '"1"' })).status).toBe(200)
  })
})
