import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { Descriptor } from '../../shared/core/descriptor.ts'
import type { MatchEntry, RegionPolicy } from '../../shared/core/policy.ts'
import { buildPolicyIndex, matchPolicy } from '../../shared/core/policy-index.ts'
import { aRegionLimit, aRegionPolicy } from '../support/region-policy.ts'

function aPolicy(id: number, match: readonly MatchEntry[], domain = 'api'): RegionPolicy {
  return aRegionPolicy({ id, match, domain, revision: id, limits: [aRegionLimit({ id })] })
}

const index = (policies: readonly RegionPolicy[], version = 1) =>
  buildPolicyIndex({ version, incarnation: 1, policies }, null)

/** `tenant=acme,path` names an exact value and a bare key. */
function entries(text: string): MatchEntry[] {
  return text.split(',').map((part) => {
    const [key = '', value] = part.split('=')
    return value === undefined ? { key } : { key, value }
  })
}

function descriptor(text: string): Descriptor {
  return { entries: entries(text).map(({ key, value = '' }) => ({ key, value })) }
}

function matched(policies: readonly string[], asked: string): string | undefined {
  const set = policies.map((match, position) => aPolicy(position + 1, entries(match)))
  const found = matchPolicy(index(set), 'api', descriptor(asked))
  return found === null ? undefined : policies[found.id - 1]
}

describe('matchPolicy', () => {
  it.each([
    ['a bare key takes any value', ['tenant'], 'tenant=acme', 'tenant'],
    ['an exact value takes only its own', ['tenant=acme'], 'tenant=other', undefined],
    ['an exact value beats a bare key', ['tenant', 'tenant=acme'], 'tenant=acme', 'tenant=acme'],
    ['a longer policy does not match', ['tenant,path'], 'tenant=acme', undefined],
    ['a shorter policy does not match', ['tenant'], 'tenant=acme,path=/', undefined],
    ['entries are compared in order', ['path,tenant'], 'tenant=acme,path=/', undefined],
    [
      'an exact branch without a match below does not hide a bare key',
      ['tenant=acme,path=/admin', 'tenant,path'],
      'tenant=acme,path=/home',
      'tenant,path',
    ],
    [
      'an exact branch that ends too early does not hide a bare key',
      ['tenant=acme', 'tenant,path'],
      'tenant=acme,path=/',
      'tenant,path',
    ],
    ['the first entry counts most', ['a,b=2', 'a=1,b'], 'a=1,b=2', 'a=1,b'],
    ['a wildcard beats a bare key', ['tenant', 'tenant=acme-*'], 'tenant=acme-1', 'tenant=acme-*'],
    ['an exact value beats a wildcard', ['t=a*', 't=acme'], 't=acme', 't=acme'],
    ['a wildcard also stands for nothing', ['t=acme-*'], 't=acme-', 't=acme-*'],
    ['a wildcard keeps to its ends', ['t=a*z'], 't=az1', undefined],
    ['the ends of a wildcard do not overlap', ['t=aba*aba'], 't=aba', undefined],
    ['wildcards may stand anywhere', ['t=*mid*end'], 't=a-mid-b-end', 't=*mid*end'],
    ['parts between wildcards come in order', ['t=*one*two*'], 't=two-one', undefined],
    ['the older of two wildcards governs', ['t=*-eu', 't=acme-*'], 't=acme-eu', 't=*-eu'],
    [
      'a wildcard branch without a match below hides neither a later wildcard nor a bare key',
      ['t=a*,p=x', 't=ab*,p=y', 't,p'],
      't=abc,p=y',
      't=ab*,p=y',
    ],
    [
      'a wildcard branch without any match below does not hide a bare key',
      ['t=a*,p=x', 't,p'],
      't=abc,p=y',
      't,p',
    ],
  ])('%s', (_guarantee, policies, asked, expected) => {
    expect(matched(policies, asked)).toBe(expected)
  })

  it('agrees with regular expressions on what wildcards match, the first that came winning', () => {
    const text = fc.string({ unit: fc.constantFrom('a', 'b', '*'), maxLength: 6 })
    const patterns = fc.uniqueArray(
      text.map((part) => `${part}*`),
      { minLength: 1, maxLength: 8 },
    )
    const value = fc.string({ unit: fc.constantFrom('a', 'b'), minLength: 1, maxLength: 8 })
    fc.assert(
      fc.property(patterns, value, (all, asked) => {
        const expected = all.find((pattern) =>
          new RegExp(`^${pattern.replaceAll('*', '.*')}$`).test(asked),
        )
        const found = matched(
          all.map((pattern) => `t=${pattern}`),
          `t=${asked}`,
        )
        expect(found).toBe(expected === undefined ? undefined : `t=${expected}`)
      }),
      { numRuns: 1_000 },
    )
  })

  it('keeps domains apart', () => {
    const both = index([aPolicy(1, entries('tenant'), 'api'), aPolicy(2, entries('tenant'), 'web')])
    expect(matchPolicy(both, 'api', descriptor('tenant=x'))?.id).toBe(1)
    expect(matchPolicy(both, 'web', descriptor('tenant=x'))?.id).toBe(2)
    expect(matchPolicy(both, 'mail', descriptor('tenant=x'))).toBeNull()
  })

  it.each(['__proto__', 'constructor', 'toString', 'hasOwnProperty'])(
    'treats %s as any other name',
    (odd) => {
      const plain = index([aPolicy(1, [{ key: 'tenant' }])])
      expect(matchPolicy(plain, odd, descriptor('tenant=x'))).toBeNull()
      expect(matchPolicy(plain, 'api', { entries: [{ key: odd, value: odd }] })).toBeNull()
      const named = index([aPolicy(1, [{ key: odd, value: odd }]), aPolicy(2, [{ key: odd }])])
      expect(matchPolicy(named, 'api', { entries: [{ key: odd, value: odd }] })?.id).toBe(1)
      expect(matchPolicy(named, 'api', { entries: [{ key: odd, value: 'x' }] })?.id).toBe(2)
    },
  )

  it('gives of two policies with one match the older, whatever their order', () => {
    const twins = [aPolicy(7, entries('tenant')), aPolicy(3, entries('tenant'))]
    for (const order of [twins, twins.toReversed()]) {
      expect(matchPolicy(index(order), 'api', descriptor('tenant=x'))?.id).toBe(3)
    }
  })

  it('finds what trying every policy finds', () => {
    const key = fc.constantFrom('a', 'b', '__proto__')
    const value = fc.constantFrom('1', '2')
    const match = fc.array(
      fc.record({ key, value: fc.option(value, { nil: undefined }) }).map((entry) => ({
        key: entry.key,
        ...(entry.value !== undefined && { value: entry.value }),
      })),
      { minLength: 1, maxLength: 4 },
    )
    const asked = fc.array(fc.record({ key, value }), { minLength: 1, maxLength: 4 })
    fc.assert(
      fc.property(fc.array(match, { maxLength: 20 }), asked, (matches, askedEntries) => {
        const policies = matches.map((entry, position) => aPolicy(position + 1, entry))
        const found = matchPolicy(index(policies), 'api', { entries: askedEntries })
        expect(found?.id).toBe(bruteForce(policies, { entries: askedEntries })?.id)
      }),
      { numRuns: 2_000 },
    )
  })

  it.each([
    ['exact values', '', 'tenant=t5,path=/'],
    ['wildcards', '-*', 'tenant=t5-eu,path=/'],
    ['wildcards, none of which fits', '-*', 'tenant=u5-eu,path=/'],
  ])('costs the same among ten thousand policies as among ten: %s', (_kind, end, text) => {
    const cost = (count: number): number => {
      const many = index(
        Array.from({ length: count }, (_, id) =>
          aPolicy(id + 1, entries(`tenant=t${id}${end},path`)),
        ),
      )
      const asked = descriptor(text)
      const rounds = Array.from({ length: 9 }, () => {
        const startedMs = performance.now()
        for (let turn = 0; turn < 5_000; turn++) matchPolicy(many, 'api', asked)
        return performance.now() - startedMs
      })
      return Math.min(...rounds)
    }
    cost(10)
    expect(cost(10_000)).toBeLessThan(cost(10) * 5 + 1)
  })
})

describe('buildPolicyIndex', () => {
  const policies = [aPolicy(1, entries('tenant')), aPolicy(2, entries('tenant'), 'web')]
  const copy = (): RegionPolicy[] => structuredClone(policies)

  it('says the version, the number of policies and the highest revision', () => {
    expect(index(policies, 9)).toMatchObject({ version: 9, policyCount: 2, revision: 2 })
    expect(index([])).toMatchObject({ policyCount: 0, revision: 0 })
  })

  it('keeps the objects of what did not change, so that what is kept by them stays valid', () => {
    const first = index(policies)
    const second = buildPolicyIndex({ version: 2, incarnation: 1, policies: copy() }, first)
    expect(second.version).toBe(2)
    expect(second.domains.get('api')).toBe(first.domains.get('api'))
    expect(matchPolicy(second, 'web', descriptor('tenant=x'))).toBe(policies[1])
  })

  it.each([
    ['its revision', (policy: RegionPolicy) => ({ ...policy, revision: 50 })],
    [
      'the version of a limit',
      (policy: RegionPolicy) => ({
        ...policy,
        limits: policy.limits.map((limit) => ({ ...limit, version: 5, home: 4 })),
      }),
    ],
    ['its limits', (policy: RegionPolicy) => ({ ...policy, limits: [] })],
  ])('takes a policy anew when %s changed, and leaves other domains alone', (_what, change) => {
    const first = index(policies)
    const [api, web] = copy()
    if (api === undefined || web === undefined) throw new Error('two policies')
    const changed = change(api)
    const second = buildPolicyIndex({ version: 2, incarnation: 1, policies: [changed, web] }, first)
    expect(matchPolicy(second, 'api', descriptor('tenant=x'))).toBe(changed)
    expect(second.domains.get('web')).toBe(first.domains.get('web'))
  })

  it('forgets what was deleted', () => {
    const first = index(policies)
    const second = buildPolicyIndex(
      { version: 2, incarnation: 1, policies: policies.slice(1) },
      first,
    )
    expect(matchPolicy(second, 'api', descriptor('tenant=x'))).toBeNull()
  })

  it('keeps nothing across incarnations, whose versions say nothing of each other', () => {
    const copied = copy()
    const second = buildPolicyIndex(
      { version: 1, incarnation: 2, policies: copied },
      index(policies),
    )
    expect(matchPolicy(second, 'api', descriptor('tenant=x'))).toBe(copied[0])
  })
})

/** The definition, written down: of all policies that match, the one most exact from the first entry on. */
function bruteForce(
  policies: readonly RegionPolicy[],
  asked: Descriptor,
): RegionPolicy | undefined {
  const rank = (policy: RegionPolicy): string =>
    policy.match.map((entry) => (entry.value === undefined ? '1' : '0')).join('')
  return policies
    .filter(
      (policy) =>
        policy.match.length === asked.entries.length &&
        policy.match.every((entry, position) => {
          const given = asked.entries[position]
          const isValue = entry.value === undefined || entry.value === given?.value
          return entry.key === given?.key && isValue
        }),
    )
    .sort((a, b) => rank(a).localeCompare(rank(b)) || a.id - b.id)[0]
}
