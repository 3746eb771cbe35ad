import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { putPolicy } from '../../../services/admin/policy-changes.ts'
import { documentOf, policyReplyOf } from '../../../services/admin/views/policy.ts'
import { changePlane, type PlaneChange } from '../../../shared/postgres/plane-change.ts'
import { policyOf } from '../../../shared/postgres/policy-rows.ts'
import { policyReplySchema } from '../../../shared/protocol/admin-replies.ts'
import type { LimitDocument, PolicyDocument } from '../../../shared/protocol/policy.ts'
import { wirePolicySchema } from '../../../shared/protocol/policy-messages.ts'
import { type Admin, startAdmin } from './admin-harness.ts'

let admin: Admin
beforeAll(async () => {
  admin = await startAdmin()
  await admin.register('us-east-1', 'eu-west-1')
})
afterAll(async () => await admin.close())

const SPLIT = { 'us-east-1': 60, 'eu-west-1': 40 }

function aLimit(change: Partial<LimitDocument> & { readonly name: string }): LimitDocument {
  return {
    algorithm: 'token_bucket',
    capacity: 100,
    split: SPLIT,
    floorPercent: 2,
    shards: 1,
    leases: 'auto',
    ...change,
  }
}

let names = 0

/** Past what the routes refuse because it is not enforced. */
async function put(document: Partial<PolicyDocument>, to?: string) {
  const name = to ?? `p-${++names}`
  const key = { domain: 'model', name }
  const context = { actor: 'test', requestId: 'r', reason: null }
  const put = (plane: PlaneChange) =>
    putPolicy(plane, {
      key,
      nowMs: 0,
      precondition: { kind: to === undefined ? 'absent' : 'present' },
      document: {
        ...key,
        description: '',
        match: [{ key: name }],
        mode: 'strict',
        objective: 'max-min',
        onStoreFailure: 'allow',
        shadow: false,
        unlimited: false,
        rebase: 'off',
        acceptSmallLimits: false,
        limits: [],
        ...document,
      },
    })
  const { policy } = await changePlane(admin.db, context, put)
  return policy
}

describe('a stored policy', () => {
  it.each<[string, Partial<PolicyDocument>]>([
    ['unlimited', { unlimited: true }],
    [
      'relaxed',
      { mode: 'relaxed', relaxedPercent: 10, limits: [aLimit({ name: 'a', windowMs: 5 })] },
    ],
    [
      'in shadow, local and proportional',
      {
        shadow: true,
        mode: 'eventual',
        objective: 'proportional',
        onStoreFailure: 'local',
        rebase: 'auto',
        acceptSmallLimits: true,
        limits: [aLimit({ name: 'a', windowMs: 5, leases: 'off', shards: 4 })],
      },
    ],
    [
      'of every algorithm',
      {
        limits: [
          aLimit({ name: 'bucket', windowMs: 5, burst: 7, candidate: { capacity: 3, burst: 2 } }),
          aLimit({ name: 'leaky', algorithm: 'leaky_bucket', windowMs: 5, burst: 7 }),
          aLimit({
            name: 'month',
            algorithm: 'fixed_window',
            calendar: { unit: 'month', timeZone: 'Europe/Berlin' },
          }),
          aLimit({
            name: 'log',
            algorithm: 'sliding_log',
            windowMs: 5,
            candidate: { capacity: 0 },
          }),
          aLimit({ name: 'window', algorithm: 'sliding_window', windowMs: 5, capacity: 0 }),
          aLimit({ name: 'counter', algorithm: 'sliding_counter', windowMs: 5 }),
          aLimit({ name: 'held', algorithm: 'concurrency', holdMs: 60_000 }),
        ],
      },
    ],
  ])('%s reads as it was written, for operators and for regions', async (_kind, document) => {
    const policy = await put(document)
    expect(documentOf(policy)).toMatchObject(document)
    const shown = policyReplyOf(policy, { members: Object.keys(SPLIT), nowMs: 0 })
    expect(policyReplySchema.parse(shown)).toEqual(shown)
    expect(wirePolicySchema.parse(policyOf(policy))).toEqual(policyOf(policy))
  })
})

describe('a candidate', () => {
  const one = (changes: Partial<LimitDocument> = {}) =>
    aLimit({ name: 'a', windowMs: 1_000, candidate: { capacity: 50 }, ...changes })
  const idsOf = (limits: readonly { id: number; candidateOf: number | null }[]) =>
    limits.map(({ id, candidateOf }) => ({ id, candidateOf }))

  it('has counters of its own, listed after every enforced limit, and keeps them as its numbers change', async () => {
    const policy = await put({ limits: [one(), aLimit({ name: 'b', windowMs: 1_000 })] })
    const [a, b, candidate] = policy.limits
    expect(policy.limits).toHaveLength(3)
    expect(candidate).toMatchObject({ name: 'a', candidateOf: a?.id, capacity: 50, burst: 50 })
    expect(new Set([a?.id, b?.id, candidate?.id]).size).toBe(3)
    const limits = [
      one({ capacity: 70, candidate: { capacity: 60 } }),
      aLimit({ name: 'b', windowMs: 1_000 }),
    ]
    const changed = await put({ limits }, policy.name)
    expect(idsOf(changed.limits)).toEqual(idsOf(policy.limits))
  })

  it('goes when it is left out, with the limit it stood beside, and when that changes its algorithm', async () => {
    const policy = await put({ limits: [one(), aLimit({ name: 'b', windowMs: 1_000 })] })
    const { candidate: _, ...alone } = one()
    const without = await put({ limits: [alone] }, policy.name)
    expect(idsOf(without.limits)).toEqual([{ id: policy.limits[0]?.id, candidateOf: null }])
    await put({ limits: [one()] }, policy.name)
    const other = await put({ limits: [one({ algorithm: 'sliding_log' })] }, policy.name)
    expect(other.limits).toHaveLength(2)
    expect(other.limits[1]?.candidateOf).toBe(other.limits[0]?.id)
    expect(other.limits[0]?.id).not.toBe(policy.limits[0]?.id)
  })
})
