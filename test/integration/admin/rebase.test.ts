import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { REBASE_INTERVAL_MS } from '../../../services/admin/rebase.ts'
import { aRecord } from './a-record.ts'
import { type Admin, aPolicy, POLICY, startAdmin } from './admin-harness.ts'

const US = 'us-east-1'
const EU = 'eu-west-1'

let admin: Admin
beforeEach(async () => {
  admin = await startAdmin()
  await admin.register(US, EU)
})
afterEach(async () => await admin.close())

/** Minutes of records in which the regions admit so many tokens a minute. */
async function demand(minutes: number, perMinute: Readonly<Record<string, number>>): Promise<void> {
  const { limits } = (await admin.call('GET', POLICY)).body
  const [{ id: limitId, usageEpoch, epoch }] = limits
  for (let minute = 0; minute < minutes; minute++) {
    admin.clock.nowMs += 60_000
    const window = Math.floor(admin.clock.nowMs / 1_000)
    for (const [from, admitted] of Object.entries(perMinute)) {
      const usage = [{ limitId, usageEpoch, window, admitted, denied: 0, returned: 0 }]
      admin.follower.hear(aRecord({ from, usage, adopted: { [limitId]: epoch } }))
    }
    await admin.follower.stepOnce()
  }
}

const baseOf = async () => (await admin.call('GET', POLICY)).body.limits[0]

describe('a base that follows the demand', () => {
  it('moves a step when the last hour had another mix, and again only after a while', async () => {
    await admin.create({ rebase: 'auto' })
    await demand(14, { [US]: 1_000, [EU]: 9_000 })
    expect(await baseOf()).toMatchObject({ epoch: 1 })
    await demand(3, { [US]: 1_000, [EU]: 9_000 })
    expect(await baseOf()).toMatchObject({ epoch: 2, base: { [US]: 400_000, [EU]: 600_000 } })
    const { body } = await admin.call('GET', '/v1/audit?limit=9')
    expect(body.items.map((item: { action: string }) => item.action)).toContain('policy.rebase')
    await demand(REBASE_INTERVAL_MS / 60_000 - 3, { [US]: 1_000, [EU]: 9_000 })
    expect(await baseOf()).toMatchObject({ epoch: 2, isEpochOpen: false })
    await demand(4, { [US]: 1_000, [EU]: 9_000 })
    expect(await baseOf()).toMatchObject({ epoch: 3, base: { [US]: 200_000, [EU]: 800_000 } })
  })

  it('stays through an edit of other numbers, and goes back with another split', async () => {
    await admin.create({ rebase: 'auto' })
    await demand(18, { [US]: 1_000, [EU]: 9_000 })
    const edit = async (changes: object) => {
      const { etag = '' } = await admin.call('GET', POLICY)
      return await admin.call('PUT', POLICY, aPolicy(changes), { 'if-match': etag })
    }
    expect((await edit({ rebase: 'off' })).body.limits[0].base).toEqual({
      [US]: 400_000,
      [EU]: 600_000,
    })
    const limits = [{ ...aPolicy().limits[0], split: { [US]: 50, [EU]: 50 } }]
    await demand(1, { [US]: 0, [EU]: 0 })
    expect((await edit({ limits })).body.limits[0].base).toEqual({ [US]: 500_000, [EU]: 500_000 })
  })

  it('stays when the policy does not ask for it, or a region is not heard', async () => {
    await admin.create()
    await demand(20, { [US]: 1_000, [EU]: 9_000 })
    expect(await baseOf()).toMatchObject({ epoch: 1 })
    const { etag = '' } = await admin.call('GET', POLICY)
    await admin.call('PUT', POLICY, aPolicy({ rebase: 'auto' }), { 'if-match': etag })
    await demand(20, { [EU]: 9_000 })
    expect(await baseOf()).toMatchObject({ epoch: 1 })
  })
})
