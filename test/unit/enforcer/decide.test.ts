import { beforeEach, describe, expect, it, vi } from 'vitest'
import { decide } from '../../../services/enforcer/decide.ts'
import { createEnforcerMetrics } from '../../../services/enforcer/metrics.ts'
import { RouteTable } from '../../../services/enforcer/routes.ts'
import { type DecideContext, REROUTES_MAX } from '../../../services/enforcer/slot-group.ts'
import { StoreGuard } from '../../../services/enforcer/store-guard.ts'
import { slotGroup } from '../../../shared/core/counter-id.ts'
import type { RegionPolicy } from '../../../shared/core/policy.ts'
import { buildPolicyIndex, type PolicyIndex } from '../../../shared/core/policy-index.ts'
import type {
  CheckStore,
  GroupCheck,
  LimitDecision,
  SoleCheck,
} from '../../../shared/core/ports.ts'
import { type ErrorCode, QuotaError } from '../../../shared/errors.ts'
import { systemClock } from '../../../shared/runtime/clock.ts'
import { createRegistry } from '../../../shared/runtime/metrics.ts'
import { NEVER_ASKED } from '../../support/idle-store.ts'
import { aRegionLimit, aRegionPolicy } from '../../support/region-policy.ts'
import { askByPromise } from '../../support/sole-check.ts'

/** A policy of one limit for each of these keys, all of them in slot groups of their own. */
const KEYS = ['tenant', 'path', 'user'] as const
const value = (key: string): string => `${key}-1`

const admit: LimitDecision = {
  allowed: true,
  reason: null,
  remaining: 5,
  resetMs: 100,
  retryAfterMs: null,
}
const refuse: LimitDecision = { ...admit, allowed: false, reason: 'limit', retryAfterMs: 40 }

function policies(change: Partial<RegionPolicy> = {}): RegionPolicy[] {
  return KEYS.map((key, position) =>
    aRegionPolicy({
      id: position + 1,
      name: key,
      match: [{ key }],
      limits: [aRegionLimit({ id: position + 1 })],
      ...change,
    }),
  )
}

function indexOf(set: readonly RegionPolicy[], version = 1): PolicyIndex {
  return buildPolicyIndex({ version, incarnation: 1, policies: set }, null)
}

/** Answers each group as `script` says for its first limit, and remembers what it was asked. */
class ScriptedStore implements CheckStore {
  readonly asked: string[] = []
  readonly refund = NEVER_ASKED.refund
  readonly release = NEVER_ASKED.release
  script: (key: string, check: GroupCheck, version: number) => LimitDecision = () => admit

  async check(check: GroupCheck, version: number) {
    const key = this.#note('check', check)
    return { atUs: 77, decisions: check.targets.map(() => this.script(key, check, version)) }
  }

  ask(check: SoleCheck) {
    askByPromise(this, check)
  }

  async giveBack(check: GroupCheck, version: number, atUs: number) {
    this.script(`back ${this.#note('give back', check)} ${atUs}`, check, version)
  }

  #note(what: string, check: GroupCheck): string {
    const keys = check.targets.map(({ limit }) => KEYS[limit.id - 1] ?? '?').join('+')
    this.asked.push(`${what} ${check.cost} ${keys}`)
    return keys
  }
}

function fail(code: ErrorCode): never {
  throw new QuotaError(code, 'scripted')
}

let store: ScriptedStore
let index: PolicyIndex | null
let refresh: () => Promise<void>
let context: DecideContext

let guardMs = 0
const guardClock = { ...systemClock, monotonicMs: () => guardMs }

beforeEach(() => {
  store = new ScriptedStore()
  index = indexOf(policies())
  refresh = vi.fn(async () => {})
  const metrics = createEnforcerMetrics(createRegistry({}, false))
  context = {
    store,
    policies: { current: () => index, refresh: () => refresh() },
    routes: new RouteTable(metrics.cellsOf),
    guard: new StoreGuard({ clock: guardClock, onChange: () => {} }),
    metrics,
  }
})

function ask(keys: readonly string[], cost = 1, domain = 'api') {
  const descriptors = keys.map((key) => ({ entries: [{ key, value: value(key) }] }))
  return decide(context, { domain, descriptors, cost })
}

describe('decide', () => {
  it('has the three policies in three slot groups, or these tests say nothing', () => {
    const groups = KEYS.map((key) =>
      slotGroup({ domain: 'api', entries: [{ key, value: value(key) }] }),
    )
    expect(new Set(groups).size).toBe(3)
  })

  it('asks every slot group in order and allows when all do', async () => {
    const verdict = await ask(['path', 'tenant', 'user'], 2)
    expect(verdict).toMatchObject({ allowed: true, degraded: false, unmatched: false })
    expect(store.asked).toEqual(['check 2 path', 'check 2 tenant', 'check 2 user'])
    expect(verdict.decided.map(({ position }) => position)).toEqual([0, 1, 2])
  })

  it('gives back what earlier groups admitted, and only reads later ones, when one denies', async () => {
    store.script = (key, { cost }) => (key === 'path' && cost > 0 ? refuse : admit)
    const verdict = await ask(['tenant', 'path', 'user'], 2)
    expect(store.asked.slice(0, 2)).toEqual(['check 2 tenant', 'check 2 path'])
    expect(store.asked.slice(2).sort()).toEqual(['check 0 user', 'give back 2 tenant'])
    expect(verdict.allowed).toBe(false)
    expect(verdict.decided.map(({ decision }) => decision)).toEqual([
      { ...admit, remaining: 7 },
      refuse,
      admit,
    ])
  })

  it('says of a spared limit what it would have said', async () => {
    const left = { ...admit, remaining: 1, resetMs: 900 }
    store.script = (key) => (key === 'tenant' ? refuse : left)
    const verdict = await ask(['tenant', 'path'], 2)
    expect(verdict.decided[1]?.decision).toEqual({
      ...left,
      allowed: false,
      reason: 'limit',
      retryAfterMs: 900,
    })
    const dear = await ask(['tenant', 'path'], 11)
    expect(dear.decided[1]?.decision).toMatchObject({
      reason: 'cost_exceeds_capacity',
      retryAfterMs: null,
    })
  })

  it('goes on with a denial when giving back fails: less is admitted, never more', async () => {
    store.script = (key) => {
      if (key.startsWith('back')) fail('QUOTA_STORE_UNAVAILABLE')
      return key === 'path' ? refuse : admit
    }
    const verdict = await ask(['tenant', 'path'])
    expect(verdict.decided[0]?.decision).toEqual(admit)
    expect(context.metrics.giveBacks.failed.count).toBe(1)
  })

  it('gives everything back when a later group is overloaded', async () => {
    store.script = (key) => (key === 'path' ? fail('QUOTA_OVERLOADED') : admit)
    await expect(ask(['tenant', 'path'])).rejects.toMatchObject({ code: 'QUOTA_OVERLOADED' })
    expect(store.asked).toEqual(['check 1 tenant', 'check 1 path', 'give back 1 tenant'])
  })

  it('merges decisions back into the order of the request', async () => {
    const two = aRegionPolicy({ id: 9, match: [{ key: 'tenant' }, { key: 'path' }] })
    index = indexOf([...policies(), two])
    const tenant = { key: 'tenant', value: value('tenant') }
    const verdict = await decide(context, {
      domain: 'api',
      cost: 1,
      descriptors: [
        { entries: [tenant] },
        { entries: [{ key: 'user', value: value('user') }] },
        { entries: [tenant, { key: 'path', value: '/' }] },
      ],
    })
    expect(store.asked).toHaveLength(2)
    expect(verdict.decided.map(({ position }) => position)).toEqual([0, 1, 2])
  })

  it('leaves a policy out where that of another descriptor replaces it, and nothing of it is spent', async () => {
    const [tenant, path, user] = policies()
    const replacing = { ...path, replaces: ['tenant', 'elsewhere'] } as RegionPolicy
    index = indexOf([tenant, replacing, user].filter((policy) => policy !== undefined))
    store.script = (key) => (key === 'tenant' ? refuse : admit)
    const verdict = await ask(KEYS)
    expect(verdict).toMatchObject({ allowed: true, unmatched: false })
    expect(verdict.decided.map(({ position }) => position)).toEqual([1, 2])
    expect(store.asked.join()).not.toContain('tenant')
    expect(await ask(['tenant', 'user'])).toMatchObject({ allowed: false })
  })

  it('does not let a policy replace itself: its limit would be none', async () => {
    index = indexOf(
      policies({ replaces: [...KEYS] }).map((policy) => ({ ...policy, replaces: [policy.name] })),
    )
    await ask(KEYS)
    expect(store.asked).toHaveLength(KEYS.length)
  })

  it('refuses a descriptor that is there twice', async () => {
    await expect(ask(['tenant', 'path', 'tenant'])).rejects.toMatchObject({
      code: 'QUOTA_INVALID_INPUT',
      problems: [{ field: 'descriptors[2]' }],
    })
    expect(store.asked).toEqual([])
  })

  it('allows what no policy governs, says so, and asks the store nothing', async () => {
    expect(await ask(['nobody'])).toMatchObject({ allowed: true, unmatched: true, decided: [] })
    expect(await ask(['tenant'], 1, 'unknown')).toMatchObject({ allowed: true, unmatched: true })
    expect(store.asked).toEqual([])
    expect(await ask(['nobody', 'tenant', 'nothing'])).toMatchObject({ unmatched: false })
    expect(context.metrics.unmatchedDescriptors.count).toBe(4)
    expect(context.metrics.unmatchedChecks.count).toBe(2)
  })

  it('decides nothing before policies are known', async () => {
    index = null
    await expect(ask(['tenant'])).rejects.toMatchObject({ code: 'QUOTA_STORE_UNAVAILABLE' })
  })
})

describe('decide under policies that change', () => {
  const staleBelow = (newest: number) => (_key: string, _check: GroupCheck, version: number) =>
    version < newest ? fail('QUOTA_POLICY_STALE') : admit

  it('reads policies that turn out stale and decides under the newer ones', async () => {
    store.script = staleBelow(2)
    refresh = async () => {
      index = indexOf(policies({ revision: 8 }), 2)
    }
    const verdict = await ask(['tenant'])
    expect(verdict).toMatchObject({ allowed: true, degraded: false, revision: 8 })
    expect(store.asked).toHaveLength(2)
  })

  it('allows as unmatched when the policy is gone by then', async () => {
    store.script = staleBelow(2)
    refresh = async () => {
      index = indexOf([], 2)
    }
    expect(await ask(['tenant'])).toMatchObject({ allowed: true, unmatched: true, decided: [] })
  })

  it('does as the policy says without a store when newer policies cannot be read', async () => {
    index = indexOf(policies({ onStoreFailure: 'deny' }))
    store.script = () => fail('QUOTA_POLICY_STALE')
    expect(await ask(['tenant'])).toMatchObject({ allowed: false, degraded: true })
    // Once, and once after each reading of newer policies.
    expect(store.asked).toHaveLength(1 + REROUTES_MAX)
    refresh = async () => fail('QUOTA_STORE_UNAVAILABLE')
    expect(await ask(['tenant'])).toMatchObject({ allowed: false, degraded: true })
  })

  it('gives back under the newer policies what it took under the older', async () => {
    store.script = (key, _check, version) => {
      if (key.startsWith('back') && version < 2) fail('QUOTA_POLICY_STALE')
      return key === 'path' ? refuse : admit
    }
    refresh = async () => {
      index = indexOf(policies({ revision: 8 }), 2)
    }
    await ask(['tenant', 'path'])
    expect(store.asked.slice(2)).toEqual(['give back 1 tenant', 'give back 1 tenant'])
    expect(context.metrics.giveBacks.done.count).toBe(1)
  })
})

describe('decide without a store', () => {
  it.each(['allow', 'deny'] as const)('does what the policy says: %s', async (onStoreFailure) => {
    index = indexOf(policies({ onStoreFailure }))
    store.script = () => fail('QUOTA_STORE_UNAVAILABLE')
    const verdict = await ask(['tenant'])
    expect(verdict).toMatchObject({ allowed: onStoreFailure === 'allow', degraded: true })
    expect(verdict.decided[0]).toMatchObject({
      degraded: 'store_unavailable',
      decision: { reason: 'store_unavailable', remaining: null, resetMs: null },
    })
  })

  it('gives back what was admitted when a policy of another group denies without the store', async () => {
    const [tenant, path] = policies()
    if (tenant === undefined || path === undefined) throw new Error('two policies')
    index = indexOf([tenant, { ...path, onStoreFailure: 'deny' }])
    store.script = (key) => (key === 'path' ? fail('QUOTA_STORE_UNAVAILABLE') : admit)
    expect(await ask(['tenant', 'path'])).toMatchObject({ allowed: false, degraded: true })
    expect(store.asked).toEqual(['check 1 tenant', 'check 1 path', 'give back 1 tenant'])
  })

  it('stops asking after three failures in a row, and still answers', async () => {
    store.script = () => fail('QUOTA_STORE_UNAVAILABLE')
    for (let turn = 0; turn < 10; turn++, guardMs += 2)
      expect((await ask(['tenant'])).degraded).toBe(true)
    expect(store.asked).toHaveLength(3)
    expect(context.metrics.cellsOf('api/tenant').degraded.store_skipped.count).toBe(7)
  })

  it('counts each decision once, by what made it', async () => {
    store.script = (_key, { cost }) => (cost > 5 ? refuse : admit)
    await ask(['tenant'])
    await ask(['tenant'], 6)
    store.script = () => fail('QUOTA_STORE_UNAVAILABLE')
    await ask(['tenant'])
    const cells = context.metrics.cellsOf('api/tenant')
    expect(cells.allowed.count).toBe(1)
    expect(cells.denied.limit.count).toBe(1)
    expect(cells.allowedWithoutStore.count).toBe(1)
    expect(context.metrics.checks).toMatchObject({ allowed: { count: 2 }, denied: { count: 1 } })
  })
})

describe('what is aside of the store', () => {
  const noLimit = { limits: [aRegionLimit({ id: 1, capacity: 0, burst: 0 })] }

  it('denies all without asking, and only reads the other policies', async () => {
    const [tenant, ...others] = policies()
    index = indexOf([aRegionPolicy({ ...tenant, ...noLimit }), ...others])
    const verdict = await ask(['path', 'tenant', 'user'], 2)
    expect(verdict.allowed).toBe(false)
    expect(verdict.decided.map(({ decision }) => decision.reason)).toEqual([null, 'deny_all', null])
    expect(store.asked.sort()).toEqual(['check 0 path', 'check 0 user'])
  })

  it('denies all once a check finds out that its policies are stale', async () => {
    const [tenant, ...others] = policies()
    const next = indexOf([aRegionPolicy({ ...tenant, ...noLimit, revision: 2 }), ...others], 2)
    store.script = (_key, _check, version) => (version < 2 ? fail('QUOTA_POLICY_STALE') : admit)
    refresh = async () => {
      index = next
    }
    const verdict = await ask(['tenant'])
    expect(verdict).toMatchObject({
      allowed: false,
      decided: [{ decision: { reason: 'deny_all' } }],
    })
  })

  it('leaves an answer alone when what is watched cannot be evaluated, whatever the reason', async () => {
    const [tenant, path, user] = policies()
    index = indexOf([
      aRegionPolicy({ ...tenant, shadow: true }),
      aRegionPolicy({ ...path }),
      aRegionPolicy({ ...user }),
    ])
    for (const code of [
      'QUOTA_STORE_UNAVAILABLE',
      'QUOTA_POLICY_STALE',
      'QUOTA_OVERLOADED',
    ] as const) {
      store.script = (key) => (key === 'tenant' ? fail(code) : admit)
      const verdict = await ask(['tenant', 'path'])
      expect(verdict).toMatchObject({ allowed: true, degraded: false, watched: [] })
      expect(verdict.decided.map(({ position }) => position)).toEqual([1])
    }
  })

  it('never puts a candidate among the limits that are decided together', async () => {
    const candidate = aRegionLimit({ id: 2, candidateOf: 1 })
    const [tenant] = policies()
    index = indexOf([aRegionPolicy({ ...tenant, limits: [aRegionLimit({ id: 1 }), candidate] })])
    store.script = (key) => (key === 'path' ? refuse : admit)
    const verdict = await ask(['tenant'])
    expect(store.asked).toEqual(['check 1 tenant', 'check 1 path'])
    expect(verdict).toMatchObject({
      allowed: true,
      watched: [{ kind: 'candidate', decision: refuse }],
    })
  })
})
