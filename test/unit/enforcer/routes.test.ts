import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { createEnforcerMetrics } from '../../../services/enforcer/metrics.ts'
import { RouteTable } from '../../../services/enforcer/routes.ts'
import { parseCounterId } from '../../../shared/core/counter-id.ts'
import type { DescriptorEntry } from '../../../shared/core/descriptor.ts'
import { buildPolicyIndex } from '../../../shared/core/policy-index.ts'
import { createRegistry } from '../../../shared/runtime/metrics.ts'
import { aRegionLimit, aRegionPolicy } from '../../support/region-policy.ts'

const byTenant = aRegionPolicy()
const index = buildPolicyIndex({ version: 1, incarnation: 1, policies: [byTenant] }, null)

const table = () => new RouteTable(createEnforcerMetrics(createRegistry({}, false)).cellsOf)
const tenant = (value: string) => ({ entries: [{ key: 'tenant', value }] })

describe('RouteTable', () => {
  it('holds a bounded number of routes, and routes as before what it forgot (B152)', () => {
    const routes = table()
    const first = routes.find(index, 'api', tenant('0'))
    for (let id = 1; id < 280_000; id++) routes.find(index, 'api', tenant(String(id)))
    expect(routes.size).toBeLessThanOrEqual(2 * 131_072)
    expect(routes.find(index, 'api', tenant('0'))).toEqual(first)
  })

  it('keeps what is asked for again and again', () => {
    const routes = table()
    const first = routes.find(index, 'api', tenant('busy'))
    for (let id = 0; id < 280_000; id++) {
      routes.find(index, 'api', tenant(String(id)))
      if (id % 1_000 === 0) expect(routes.find(index, 'api', tenant('busy'))).toBe(first)
    }
  })

  it('tells descriptors apart that a short way to hot ones could confuse', () => {
    const routes = table()
    const values = ['ab', 'cb', 'b', 'bb', 'abab', '', 'ab', 'b']
    for (const value of [...values, ...values, ...values]) {
      const of = (domain: string, key: string) =>
        routes.find(index, domain, { entries: [{ key, value }] }).targets
      expect(of('api', 'tenant')).toMatchObject([
        { counter: expect.stringMatching(`tenant=${value}$`) },
      ])
      expect([...of('api', 'other'), ...of('else', 'tenant')]).toEqual([])
    }
  })

  it('counts values together where the match says so, in one slot group, and the others apart', () => {
    const match = [
      { key: 'path', value: '/v1/*', shared: true },
      { key: 'method', shared: true },
      { key: 'user' },
    ]
    const policies = [aRegionPolicy({ match })]
    const shared = buildPolicyIndex({ version: 1, incarnation: 1, policies }, null)
    const counter = (path: string, method: string, user: string) => {
      const values = { path, method, user }
      const entries = Object.entries(values).map(([key, value]) => ({ key, value }))
      return table().find(shared, 'api', { entries }).targets[0]?.counter
    }
    const first = counter('/v1/a', 'GET', 'ann')
    expect(first).toMatch(/\}1\.0:path=\/v1\/\*,method=\*,user=ann$/)
    for (const path of ['/v1/b', '/v1/', '/v1/*', '/v1/%']) {
      for (const method of ['GET', 'PUT', '*']) expect(counter(path, method, 'ann')).toBe(first)
    }
    expect(counter('/v1/a', 'GET', 'bob')).not.toBe(first)
    expect(counter('/v2/a', 'GET', 'ann')).toBeUndefined()
  })

  it('does not remember long descriptors, which callers could fill the memory with', () => {
    const routes = table()
    const long = tenant('x'.repeat(1_000))
    expect(routes.find(index, 'api', long)).toEqual(routes.find(index, 'api', long))
    expect(routes.size).toBe(0)
  })

  it('routes under the newest policies only', () => {
    const routes = table()
    routes.find(index, 'api', tenant('a'))
    const changed = aRegionPolicy({ revision: 2, limits: [aRegionLimit({ usageEpoch: 5 })] })
    const next = buildPolicyIndex({ version: 2, incarnation: 1, policies: [changed] }, index)
    expect(routes.find(next, 'api', tenant('a')).targets[0]?.counter).toContain('1.5:')
    expect(routes.size).toBe(1)
  })

  it('gives two policies with equal limits counters of their own for one subject (B073)', () => {
    const twins = ['a', 'b'].map((domain, position) =>
      aRegionPolicy({ id: position + 1, domain, limits: [aRegionLimit({ id: position + 1 })] }),
    )
    const both = buildPolicyIndex({ version: 1, incarnation: 1, policies: twins }, null)
    const counters = twins.map(({ domain }) => table().find(both, domain, tenant('acme')))
    const names = counters.map(({ targets }) => targets[0]?.counter.replace(/^\{...\}/, ''))
    expect(names).toEqual(['1.0:tenant=acme', '2.0:tenant=acme'])
  })

  it('leads the requests of a key with shards to a slot group each, and the same request to the same', () => {
    const limits = ['a', 'b'].map((name, id) => aRegionLimit({ id: id + 1, name, shards: 4 }))
    const sharded = [aRegionPolicy({ limits })]
    const parts = buildPolicyIndex({ version: 1, incarnation: 1, policies: sharded }, null)
    const routes = table()
    const seen = new Map<number, Set<string>>()
    for (let request = 0; request < 200; request++) {
      const route = routes.find(parts, 'api', tenant('hot'), `request-${request}`)
      expect(routes.find(parts, 'api', tenant('hot'), `request-${request}`)).toBe(route)
      const counters = route.targets.map(({ counter }) => counter)
      const groups = new Set(counters.map((counter) => parseCounterId(counter)?.group))
      expect([...groups]).toEqual([route.group])
      seen.set(route.group, new Set([...(seen.get(route.group) ?? []), counters.join(' ')]))
    }
    expect([...seen.values()].map((counters) => counters.size)).toEqual([1, 1, 1, 1])
  })

  it('counts each part of a key towards the bound on routes', () => {
    const sharded = [aRegionPolicy({ limits: [aRegionLimit({ shards: 16 })] })]
    const parts = buildPolicyIndex({ version: 1, incarnation: 1, policies: sharded }, null)
    const routes = table()
    for (let id = 0; id < 20_000; id++) routes.find(parts, 'api', tenant(String(id)))
    expect(routes.size * 16).toBeLessThanOrEqual(2 * (131_072 + 16))
  })

  it('gives different requests different counters, and the same request the same', () => {
    const text = fc.oneof(
      fc.string({ minLength: 1, maxLength: 6 }),
      fc.constantFrom('1:', '1.1:ab', '\n', '__proto__', 'a=b,c', '%0025'),
    )
    const entries = fc.array(fc.record({ key: fc.constant('k'), value: text }), {
      minLength: 1,
      maxLength: 3,
    })
    const domains = ['api', '3:api', 'a']
    const policies = domains.flatMap((domain, position) =>
      [1, 2, 3].map((depth) =>
        aRegionPolicy({
          id: position * 3 + depth,
          domain,
          match: Array(depth).fill({ key: 'k' }),
          limits: [aRegionLimit({ id: position * 3 + depth })],
        }),
      ),
    )
    const all = buildPolicyIndex({ version: 1, incarnation: 1, policies }, null)
    const routes = table()
    const domain = fc.constantFrom(...domains)
    const request = fc.record({ domain, entries })
    fc.assert(
      fc.property(request, request, (one, other) => {
        const counter = (asked: { domain: string; entries: DescriptorEntry[] }) =>
          routes.find(all, asked.domain, asked).targets[0]?.counter
        const isSame = JSON.stringify(one) === JSON.stringify(other)
        expect(counter(one)).toBeDefined()
        expect(counter(one) === counter(other)).toBe(isSame)
      }),
      { numRuns: 2_000 },
    )
  })
})
