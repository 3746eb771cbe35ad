import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { planeOf } from '../../../services/sync/plane.ts'
import { regionPolicies } from '../../../services/sync/region-policies.ts'
import {
  ALGORITHMS,
  type Limit,
  type Policy,
  type RegionPolicySpec,
} from '../../../shared/core/policy.ts'
import { POOL_UNITS } from '../../../shared/core/units.ts'
import { PLAIN_LIMIT, PLAIN_POLICY } from '../../support/region-policy.ts'
import { startRegion, type TestEnforcer, type TestRegion } from './region.ts'

/** Keys that are counted in several parts, each in a slot group of its own. */

const SHARDS = 4
const CAPACITY = 40
const HOUR_MS = 3_600_000

let limitIds = 100
let requests = 0
const aLimit = (change: Partial<Limit> = {}): Limit => ({
  ...PLAIN_LIMIT,
  id: ++limitIds,
  name: 'hot',
  algorithm: 'fixed_window',
  shards: SHARDS,
  capacity: CAPACITY,
  windowMs: HOUR_MS,
  burst: change.capacity ?? CAPACITY,
  usageEpoch: 0,
  epoch: 1,
  base: { 'us-east-1': POOL_UNITS },
  previousBase: null,
  floorPercent: 2,
  ...change,
})

let policyIds = 100
const aPolicy = (name: string, limits: readonly Limit[], change: Partial<Policy> = {}): Policy => ({
  ...PLAIN_POLICY,
  id: ++policyIds,
  domain: 'api',
  name,
  description: '',
  revision: policyIds,
  match: [{ key: name }],
  objective: 'max-min',
  onStoreFailure: 'local',
  limits,
  ...change,
})

/** What the region's daemon makes of policies of the plane. */
function asRegionHas(policies: readonly Policy[], home = POOL_UNITS): readonly RegionPolicySpec[] {
  const limits = policies.flatMap((policy) => policy.limits)
  const homes = new Map(limits.map(({ id }) => [id, home]))
  const plane = planeOf(policies, policyIds, ['us-east-1'])
  return [...regionPolicies(plane, homes, new Map(), 0)]
}

const each = ALGORITHMS.map((algorithm) =>
  aPolicy(algorithm.replace('_', '-'), [aLimit({ algorithm })]),
)
const leased = aPolicy('leased', [aLimit({ capacity: 4_000 })])
const lowered = ['fixed_window', 'token_bucket'].map((algorithm) =>
  aPolicy(`lowered-${algorithm}`, [aLimit({ algorithm: algorithm as Limit['algorithm'] })]),
)
const several = aPolicy('several', [
  aLimit({ name: 'wide', capacity: 400 }),
  aLimit({ name: 'narrow' }),
])
const varied = aPolicy('varied', [aLimit({ algorithm: 'token_bucket' })], {
  tiers: { pro: { hot: { capacity: 80 } } },
  overrides: [{ value: 'big', rule: { kind: 'tier', tier: 'pro' } }],
})
const resharded = aPolicy('resharded', [aLimit({ capacity: 4_000_000 })])
const inMemory = aPolicy('in-memory', [aLimit({ algorithm: 'token_bucket' })])
const all = [...each, leased, ...lowered, several, varied, resharded, inMemory]

let region: TestRegion
let enforcer: TestEnforcer

beforeAll(async () => {
  region = await startRegion(asRegionHas(all))
  enforcer = await region.startEnforcer()
})
afterAll(() => region.stop())

interface Answer {
  readonly allowed: boolean
  readonly degraded: boolean
  readonly requestId: string
  readonly admittedAtUs: number
  readonly decisions: readonly { readonly limit: number; readonly remaining: number }[]
}

async function post(path: string, payload: object, by = enforcer) {
  const reply = await by.app.inject({ method: 'POST', url: path, payload })
  return reply.json()
}

const asked = (key: string, value: string) => ({
  domain: 'api',
  descriptors: [{ entries: [{ key, value }] }],
})

/** So many checks of one key, each of a request of its own. */
async function ask(key: string, count: number, { by = enforcer, value = 'one' } = {}) {
  const answers: Answer[] = await Promise.all(
    Array.from({ length: count }, () =>
      post('/v1/check', { ...asked(key, value), requestId: `request-${++requests}` }, by),
    ),
  )
  return { answers, admitted: answers.filter(({ allowed }) => allowed) }
}

describe('a key with shards', () => {
  it.each(each)(
    'admits its whole share and not a token more, and gives back where it took: $name',
    async ({ name }) => {
      const { answers, admitted } = await ask(name, 10 * CAPACITY)
      expect(admitted).toHaveLength(CAPACITY)
      for (const { decisions } of answers) expect(decisions[0]?.limit).toBe(CAPACITY)
      const [one] = admitted
      if (one === undefined) throw new Error('one is admitted')
      const { requestId, admittedAtUs } = one
      const given = { ...asked(name, 'one'), requestId }
      const isHeld = name === 'concurrency'
      const { limits } = isHeld
        ? await post('/v1/release', given)
        : await post('/v1/refund', { ...given, cost: 1, admittedAtUs })
      expect(limits).toMatchObject([{ tokens: 1 }])
      expect((await ask(name, 10 * CAPACITY)).admitted).toHaveLength(1)
    },
  )

  it.each(lowered)('has each part clamped when its share is lowered: $name', async (policy) => {
    const { name } = policy
    const before = (await ask(name, 24)).admitted.length
    expect(before).toBe(24)
    const others = all.filter((one) => one !== policy)
    await region.write([...asRegionHas([policy], POOL_UNITS / 4), ...asRegionHas(others)])
    const after = (await ask(name, 10 * CAPACITY)).admitted.length
    // A quarter of the share is 2 tokens in each part, and 24 of the 40 were spent evenly or not.
    expect(after).toBeLessThanOrEqual(2 * SHARDS)
    await region.write(asRegionHas(all))
    const windows = name.includes('window')
    // A window has its whole share again; what a bucket lost comes back by refill alone.
    const raised = (await ask(name, 10 * CAPACITY)).admitted.length
    expect(before + after + raised).toBeLessThanOrEqual(CAPACITY)
    if (windows) expect(before + after + raised).toBe(CAPACITY)
  })

  it('decides several limits in one step, none spending what another denied', async () => {
    const { admitted } = await ask('several', 10 * CAPACITY)
    expect(admitted).toHaveLength(CAPACITY)
    const read: Answer[] = await Promise.all(
      Array.from({ length: 100 }, () => post('/v1/check', { ...asked('several', 'one'), cost: 0 })),
    )
    // A hundred a part, of which each let through ten.
    for (const { decisions } of read) expect(decisions[0]?.remaining).toBe(90)
  })

  it('admits what its tenant has, and tells it all of that', async () => {
    const { answers, admitted } = await ask('varied', 800, { value: 'big' })
    expect(admitted).toHaveLength(80)
    for (const { decisions } of answers) expect(decisions[0]?.limit).toBe(80)
  })

  it('is leased part by part, and admits no more for it', async () => {
    const leasing = await region.startEnforcer({ leases: true })
    let admitted = 0
    for (let turn = 0; turn < 100; turn++) {
      admitted += (await ask('leased', 100, { by: leasing })).admitted.length
    }
    expect(await leasing.series('quotaplane_lease_tokens_total')).toBeGreaterThan(0)
    await leasing.giveUpLeases()
    const other = await ask('leased', 2_000)
    expect(admitted + other.admitted.length).toBe(4_000)
  })

  it('loses no check while the number of its shards changes', async () => {
    let isChanging = true
    const answers: Answer[] = []
    const load = async (): Promise<void> => {
      while (isChanging) answers.push(...(await ask('resharded', 50)).answers)
    }
    const loads = [load(), load()]
    for (const shards of [8, 1, 2, 16, 4]) {
      // As admin has it: the limit of another number is another limit.
      const limits = [aLimit({ capacity: 4_000_000, shards })]
      const changed = { ...resharded, limits, revision: ++policyIds }
      await region.write(asRegionHas([...all.filter((one) => one !== resharded), changed]))
      // Some under each number, however slowly they are answered.
      const more = answers.length + 100
      const hasMore = () => expect(answers.length).toBeGreaterThanOrEqual(more)
      await vi.waitFor(hasMore, { timeout: 20_000, interval: 1 })
    }
    isChanging = false
    await Promise.all(loads)
    expect(answers.filter(({ allowed, degraded }) => !allowed || degraded)).toEqual([])
    expect(answers.length).toBeGreaterThan(200)
  })

  it('has its share in memory while Redis is away, in as many parts and no more together', async () => {
    const short = await region.startEnforcer({ deadlineMs: 50 })
    region.redis.pause()
    try {
      const { answers, admitted } = await ask('in-memory', 10 * CAPACITY, { by: short })
      expect(answers.every(({ degraded }) => degraded)).toBe(true)
      // Two enforcers are alive or more, each with its part.
      expect(admitted.length).toBeGreaterThan(0)
      expect(admitted.length).toBeLessThanOrEqual(CAPACITY)
    } finally {
      region.redis.resume()
    }
  })
})
