import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { REGIONS_MAX } from '../../../shared/core/units.ts'
import { type Admin, startAdmin } from './admin-harness.ts'

let admin: Admin
beforeAll(async () => {
  admin = await startAdmin()
})
afterAll(async () => await admin.close())

const put = (id: string, body?: unknown, headers: Record<string, string> = {}) =>
  admin.call('PUT', `/v1/regions/${id}`, body, headers)
const remove = (id: string, headers: Record<string, string> = { 'if-match': '*' }) =>
  admin.call('DELETE', `/v1/regions/${id}`, undefined, headers)

describe('a region', () => {
  it('is registered again and again to the same effect', async () => {
    const first = await put('us-east-1')
    expect(first).toMatchObject({ status: 201, body: { id: 'us-east-1', state: 'active' } })
    expect(await put('us-east-1', {})).toMatchObject({ status: 200, etag: first.etag })
    expect((await put('us-east-1', {}, { 'if-none-match': '*' })).status).toBe(412)
  })

  it('is not overwritten without a precondition', async () => {
    const { etag = '' } = await put('eu-west-1', { description: 'Dublin' })
    expect((await put('eu-west-1', { description: 'Ireland' })).status).toBe(428)
    const updated = await put('eu-west-1', { description: 'Ireland' }, { 'if-match': etag })
    expect(updated).toMatchObject({ status: 200, body: { description: 'Ireland' } })
    expect((await put('eu-west-1', { description: 'x' }, { 'if-match': etag })).status).toBe(412)
  })

  it('moves the revision of the plane, so every region learns of its members', async () => {
    await put('ap-south-1')
    await admin.follower.stepOnce()
    expect(admin.cache.members).toContain('ap-south-1')
    expect(admin.announced.at(-1)).toBe(admin.cache.revision)
    const before = admin.cache.revision
    await remove('ap-south-1')
    await admin.follower.stepOnce()
    expect(admin.cache.revision).toBeGreaterThan(before)
    expect(admin.cache.members).not.toContain('ap-south-1')
  })

  it('that a split names is not removed', async () => {
    await admin.create()
    const refused = await remove('us-east-1')
    expect(refused).toMatchObject({ status: 409, body: { code: 'QUOTA_IN_USE' } })
    expect(refused.body.detail).toContain('api/per-tenant')
  })

  it('is removed only with a precondition, and once', async () => {
    await put('sa-east-1')
    expect((await remove('sa-east-1', {})).status).toBe(428)
    expect((await remove('sa-east-1', { 'if-match': '"1"' })).status).toBe(412)
    expect((await remove('sa-east-1')).status).toBe(204)
    expect((await remove('sa-east-1')).status).toBe(404)
    expect((await admin.call('GET', '/v1/regions/sa-east-1')).status).toBe(404)
  })

  it('refuses unknown fields by name', async () => {
    const refused = await put('us-east-1', { state: 'removed' })
    expect(refused).toMatchObject({ status: 400, body: { errors: [{ field: 'state' }] } })
  })

  it('is one of at most as many as the proof of the shares allows', async () => {
    const { body } = await admin.call('GET', '/v1/regions')
    for (let i = body.items.length; i < REGIONS_MAX; i++) await put(`region-${i}`)
    expect(await put('one-too-many')).toMatchObject({ status: 409 })
    const all = await admin.call('GET', '/v1/regions')
    expect(all.body.items).toHaveLength(REGIONS_MAX)
  })
})
