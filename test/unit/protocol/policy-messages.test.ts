import { describe, expect, it } from 'vitest'
import type { Limit, Policy } from '../../../shared/core/policy.ts'
import { pageOf, requireKnown } from '../../../shared/protocol/changes-page.ts'
import { LIMITS_MAX } from '../../../shared/protocol/policy.ts'
import {
  CHANGES_BYTES_MAX,
  changesReplySchema,
  changesRequestSchema,
  decodeMessage,
  incarnationRequestSchema,
  PLANE_POLICY_FORMAT,
  type PolicyChange,
  wirePolicySchema,
} from '../../../shared/protocol/policy-messages.ts'
import { PLAIN_LIMIT, PLAIN_POLICY } from '../../support/region-policy.ts'

function aLimit(changes: Partial<Limit> = {}): Limit {
  return {
    id: 1,
    name: 'per-second',
    algorithm: 'token_bucket',
    ...PLAIN_LIMIT,
    capacity: 10,
    windowMs: 1_000,
    burst: 10,
    usageEpoch: 0,
    epoch: 1,
    base: { 'us-east-1': 1_000_000 },
    previousBase: null,
    floorPercent: 2,
    ...changes,
  }
}

function aChange(revision: number, changes: Partial<Policy> = {}): PolicyChange {
  const policy: Policy = {
    id: revision,
    domain: 'api',
    name: `p-${revision}`,
    description: '',
    revision,
    match: [{ key: 'tenant' }],
    ...PLAIN_POLICY,
    objective: 'max-min',
    onStoreFailure: 'allow',
    limits: [aLimit()],
    ...changes,
  }
  return { kind: 'policy', policy }
}

const read = (changes: readonly PolicyChange[], hasMore = false) =>
  pageOf({
    revision: 99,
    members: ['us-east-1'],
    formerMembers: [],
    leastIncarnations: {},
    changes,
    hasMore,
  })

describe('a page of changes', () => {
  it('is the last when everything fits and nothing more is there', () => {
    expect(read([aChange(1), aChange(2)])).toMatchObject({ revision: 99, next: null })
    expect(read([])).toMatchObject({ changes: [], next: null })
  })

  it('goes on after its last change when more is there', () => {
    expect(read([aChange(1), aChange(2)], true)).toMatchObject({ next: 2 })
    expect(read([{ kind: 'removed', id: 7, revision: 5 }], true)).toMatchObject({ next: 5 })
  })

  it('ends before it would be too large for NATS, counted in bytes', () => {
    const changes = Array.from({ length: 20 }, (_, i) =>
      aChange(i + 1, { description: 'é'.repeat(30_000) }),
    )
    const page = read(changes)
    expect(Buffer.byteLength(JSON.stringify(page))).toBeLessThanOrEqual(CHANGES_BYTES_MAX)
    expect(page.changes.length).toBeGreaterThan(1)
    expect(page.next).toBe(page.changes.length)
  })

  it('holds the largest policy that may be saved', () => {
    const regions = Array.from({ length: 64 }, (_, i) => `${i}-${'r'.repeat(60)}`.slice(0, 63))
    const base = Object.fromEntries(regions.map((region) => [region, 1_000_000 / 64]))
    const limits = Array.from({ length: LIMITS_MAX }, () => aLimit({ base, previousBase: base }))
    const match = Array.from({ length: 16 }, () => ({
      key: 'k'.repeat(256),
      value: 'v'.repeat(1_024),
    }))
    const page = read([aChange(1, { description: '"'.repeat(65_536), limits, match })], true)
    expect(Buffer.byteLength(JSON.stringify(page))).toBeLessThanOrEqual(CHANGES_BYTES_MAX)
  })
})

describe('the format of policies', () => {
  it('is raised with every field that an earlier daemon would leave out', () => {
    // Fields of format 2. With another: raise PLANE_POLICY_FORMAT, say in beyondFormat what is beyond the one before.
    expect(PLANE_POLICY_FORMAT).toBe(2)
    expect(Object.keys(wirePolicySchema.shape).toSorted().join(' ')).toBe(
      'description domain emergency id limits match mode name objective onStoreFailure overrides overridesBy relaxedPercent replaces revision shadow tiers unlimited',
    )
    expect(Object.keys(wirePolicySchema.shape.limits.element.shape).toSorted().join(' ')).toBe(
      'algorithm base burst calendar candidateOf capacity epoch floorPercent id leases name previousBase shards usageEpoch windowMs',
    )
  })

  it('of a region says what it is told, and what it is refused with the reason', () => {
    const block = { kind: 'block', value: 'acme' } as const
    const blocked = aChange(2, { emergency: [{ id: 1, effect: block, expiresAtMs: 9 }] })
    const sharded = aChange(3, { limits: [aLimit({ shards: 4 })] })
    requireKnown([aChange(1), { kind: 'removed', id: 7, revision: 5 }], 1)
    requireKnown([blocked, sharded], 2)
    expect(() => requireKnown([aChange(1), blocked], 1)).toThrow(
      "api/p-2 has an emergency action, which this region's sync daemon does not know: upgrade it",
    )
    expect(() => requireKnown([sharded], 1)).toThrow('api/p-3 has a limit of several shards')
  })
})

describe('a policy message', () => {
  it('means the same after it was sent', () => {
    const special: Partial<Policy> = {
      domain: 'edge_proxy.Example',
      match: [{ key: 'path', value: '/v1/*', shared: true }],
      replaces: ['p-9'],
    }
    const page = read([aChange(1), aChange(2, special), { kind: 'removed', id: 2, revision: 3 }])
    expect(decodeMessage(changesReplySchema, JSON.stringify(page))).toEqual(page)
  })

  it.each([
    [
      'of a newer version',
      '{"v":2,"since":0}',
      /version 2 came, and this process knows 1: upgrade/,
    ],
    ['that is not JSON', 'since=0', /not JSON/],
    ['without a field', '{"v":1}', /malformed.*since/],
    ['with a negative revision', '{"v":1,"since":-1}', /malformed.*since/],
  ])('%s is refused, and why is said', (_what, payload, reason) => {
    expect(() => decodeMessage(changesRequestSchema, payload)).toThrow(reason)
  })

  it('that is a refusal by admin says its reason', () => {
    const refusal = '{"v":1,"error":"Postgres did not answer in time"}'
    expect(() => decodeMessage(changesReplySchema, refusal)).toThrow(/Postgres did not answer/)
  })

  it('asks for an incarnation under a request id, which has a bound', () => {
    const ask = (requestId: string) =>
      incarnationRequestSchema.safeParse({ v: 1, requestId, atLeast: 0 }).success
    expect(ask('boot-1')).toBe(true)
    expect(ask('')).toBe(false)
    expect(ask('x'.repeat(129))).toBe(false)
  })
})
