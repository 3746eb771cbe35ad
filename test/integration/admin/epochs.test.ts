import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { aRecord } from './a-record.ts'
import { type Admin, type Answer, aLimit, aPolicy, POLICY, startAdmin } from './admin-harness.ts'

let admin: Admin
let created: Answer

beforeEach(async () => {
  admin = await startAdmin()
  await admin.register('us-east-1', 'eu-west-1')
  created = await admin.create()
})
afterEach(async () => await admin.close())

const put = (limit: object, etag: string | undefined) =>
  admin.call('PUT', POLICY, aPolicy({ limits: [aLimit(limit)] }), { 'if-match': etag ?? '' })

const turn = { split: { 'us-east-1': 10, 'eu-west-1': 90 } }

/** A record of `region` in which it says that it works with `epoch` of the policy's limit. */
async function adopt(region: string, epoch: number): Promise<void> {
  const adopted = { [String(created.body.limits[0].id)]: epoch }
  admin.follower.hear(aRecord({ from: region, adopted }))
  await admin.follower.stepOnce()
}

const wirePolicy = () => [...admin.cache.policies][0]

describe('a base epoch', () => {
  it('begins when the split changes, and shows the split before it until every region adopted it', async () => {
    const turned = await put(turn, created.etag)
    expect(turned.body.limits[0]).toMatchObject({ epoch: 2, isEpochOpen: true })
    await admin.follower.stepOnce()
    expect(wirePolicy()?.limits[0]).toMatchObject({
      epoch: 2,
      base: { 'us-east-1': 100_000, 'eu-west-1': 900_000 },
      previousBase: { 'us-east-1': 600_000, 'eu-west-1': 400_000 },
    })

    await adopt('us-east-1', 2)
    const status = await admin.call('GET', `${POLICY}/status`)
    expect(status.body.openEpochs).toMatchObject([
      { limit: 'per-second', epoch: 2, awaited: ['eu-west-1'] },
    ])
    expect(wirePolicy()?.limits[0]?.previousBase).not.toBeNull()

    await adopt('eu-west-1', 2)
    expect(wirePolicy()?.limits[0]).toMatchObject({ epoch: 2, previousBase: null })
    const closed = await admin.call('GET', POLICY)
    expect(closed.body.revision).toBeGreaterThan(turned.body.revision)
    expect(closed.body.limits[0]).toMatchObject({ epoch: 2, isEpochOpen: false })
    expect(admin.announced.at(-1)).toBe(closed.body.revision)
    const { body } = await admin.call('GET', '/v1/audit?limit=1')
    expect(body.items[0]).toMatchObject({ action: 'epoch.close', objectId: 'api/per-tenant' })
  })

  it('accepts no further change of the split while it is open, and names the regions awaited', async () => {
    const turned = await put(turn, created.etag)
    const back = { split: { 'us-east-1': 50, 'eu-west-1': 50 } }
    await adopt('us-east-1', 2)
    const refused = await put(back, turned.etag)
    expect(refused).toMatchObject({
      status: 409,
      body: { code: 'QUOTA_EPOCH_OPEN', errors: [{ field: 'limits[0].split' }] },
    })
    expect(refused.body.errors[0].message).toContain('awaits eu-west-1')
    expect((await admin.call('GET', POLICY)).body).toEqual(turned.body)
    await adopt('eu-west-1', 2)
    const closed = await admin.call('GET', POLICY)
    expect((await put(back, closed.etag)).body.limits[0]).toMatchObject({ epoch: 3 })
  })

  it('is no obstacle to a change of other numbers while it is open', async () => {
    const turned = await put(turn, created.etag)
    const grown = await put({ ...turn, capacity: 50_000 }, turned.etag)
    expect(grown).toMatchObject({
      status: 200,
      body: { limits: [{ epoch: 2, isEpochOpen: true }] },
    })
  })

  it('does not begin for a change that moves no units', async () => {
    const grown = await put({ capacity: 20_000, windowMs: 500 }, created.etag)
    expect(grown.body.limits[0]).toMatchObject({ epoch: 1, isEpochOpen: false })
  })

  it('begins for a small capacity whose whole tokens fall otherwise', async () => {
    const small = await put({ capacity: 3 }, created.etag)
    expect(small.body.limits[0]).toMatchObject({ epoch: 2, isEpochOpen: true })
  })

  it('is not closed by a region that speaks of an older epoch, nor by one that is not registered', async () => {
    await put(turn, created.etag)
    await adopt('us-east-1', 1)
    await adopt('eu-west-1', 2)
    await adopt('mars', 2)
    const { body } = await admin.call('GET', `${POLICY}/status`)
    expect(body.openEpochs[0].awaited).toEqual(['us-east-1'])
  })

  it('awaits a region that is registered meanwhile, and not one that is removed', async () => {
    await admin.register('ap-south-1')
    await put(turn, created.etag)
    await adopt('us-east-1', 2)
    await adopt('eu-west-1', 2)
    const { body } = await admin.call('GET', `${POLICY}/status`)
    expect(body.openEpochs[0].awaited).toEqual(['ap-south-1'])
    await admin.call('DELETE', '/v1/regions/ap-south-1', undefined, { 'if-match': '*' })
    expect((await admin.call('GET', POLICY)).body.limits[0].isEpochOpen).toBe(false)
  })

  it('keeps a region that loses its part registered until all have adopted that', async () => {
    await put({ split: { 'eu-west-1': 100 } }, created.etag)
    const remove = () =>
      admin.call('DELETE', '/v1/regions/us-east-1', undefined, { 'if-match': '*' })
    expect((await remove()).status).toBe(409)
    await adopt('us-east-1', 2)
    await adopt('eu-west-1', 2)
    expect((await remove()).status).toBe(204)
  })

  it('that admin forgot is found again by the next records', async () => {
    await put(turn, created.etag)
    await adopt('us-east-1', 2)
    const successor = await startAdmin({ url: admin.url })
    const adopted = { [String(created.body.limits[0].id)]: 2 }
    successor.follower.hear(aRecord({ from: 'eu-west-1', adopted }))
    await successor.follower.stepOnce()
    expect((await successor.call('GET', POLICY)).body.limits[0].isEpochOpen).toBe(false)
    await successor.close()
  })

  it('is written down once, however often regions repeat it', async () => {
    await put(turn, created.etag)
    await admin.follower.stepOnce()
    const adopted = { [String(created.body.limits[0].id)]: 2 }
    expect(admin.follower.hear(aRecord({ adopted }))).toBe(true)
    await admin.follower.stepOnce()
    expect(admin.follower.hear(aRecord({ adopted }))).toBe(false)
  })
})
