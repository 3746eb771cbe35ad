import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { stringify } from 'yaml'
import { parseEnvoyConfig } from '../../../../services/cli/import/envoy-config.ts'
import { exportEnvoy } from '../../../../services/cli/import/envoy-export.ts'
import {
  type EnvoyFile,
  envoyPolicies,
  mergeProblems,
} from '../../../../services/cli/import/envoy-policies.ts'
import { TwinPlane } from '../../../../services/cli/simulate/twin-plane.ts'
import { policyDocumentSchema } from '../../../../shared/protocol/policy.ts'
import { randomOf } from '../../../support/random.ts'
import { ENVOY_FIXTURES } from './envoy-fixtures.ts'
import { type Entries, EnvoyReference } from './envoy-reference.ts'

const options = { split: { 'us-east-1': 60, 'eu-west-1': 40 }, domains: new Map<string, string>() }

function filesOf(texts: readonly string[]): readonly EnvoyFile[] {
  return texts.map((text, index) => {
    const { domain, problems } = parseEnvoyConfig(text)
    expect(problems).toEqual([])
    if (domain === null) throw new Error('refused')
    return { file: `${index}.yaml`, domain }
  })
}

function imported(texts: readonly string[]) {
  const { policies, leftOut } = envoyPolicies(filesOf(texts), options)
  expect(leftOut).toEqual([])
  return policies.map((policy) => ({ document: policyDocumentSchema.parse(policy) }))
}

const entriesOf = (texts: readonly string[]): Entries =>
  texts.map((text) => {
    const [key = '', value = ''] = text.split('=')
    return { key, value }
  })

describe('an imported configuration of Envoy decides as before', () => {
  it.each(ENVOY_FIXTURES)('with $what', ({ texts, descriptors }) => {
    const domain = /domain: (\S+)/.exec(texts[0] ?? '')?.[1] ?? ''
    const reference = new EnvoyReference(texts)
    const plane = new TwinPlane(imported(texts), 'whole')
    const { below } = randomOf(7)
    const random = (): number => below(1e6) / 1e6
    const seen = new Set<boolean>()
    let nowMs = Date.UTC(2026, 0, 1)
    for (let round = 0; round < 1_000; round++) {
      // Within a second at times, over days at others.
      nowMs += Math.floor(random() ** 6 * 40_000_000)
      const count = random() < 0.7 ? 1 : 2
      const some = descriptors.filter(() => random() < count / descriptors.length).map(entriesOf)
      const [first = entriesOf(descriptors[0] ?? []), ...rest] = some
      const asked = [first, ...rest.slice(0, 1)]
      const expected = reference.decide(domain, asked, nowMs)
      const check = { region: 'here', domain, cost: 1, nowMs }
      const { allowed } = plane.check({
        ...check,
        descriptors: asked.map((entries) => ({ entries })),
      })
      if (allowed !== expected) expect({ asked, nowMs, allowed }).toBe(`allowed: ${expected}`)
      seen.add(allowed)
    }
    expect(seen.size).toBe(2)
  })

  const VALUES = ['a', 'ab', 'abc', 'b', 'bc']
  const value = fc.constantFrom(undefined, ...VALUES, 'a*', '*b', 'a*c', '*')
  const level = (below: fc.Arbitrary<object[]>): fc.Arbitrary<object[]> =>
    fc.uniqueArray(
      fc.record({
        key: fc.constantFrom('k', 'l'),
        value,
        rate_limit: fc.constantFrom(undefined, { unit: 'hour', requests_per_unit: 2 }),
        share_threshold: fc.constant(undefined as true | undefined),
        descriptors: below,
      }),
      { maxLength: 5, selector: ({ key, value }) => `${key}_${value}` },
    )
  const tree = level(level(level(fc.constant([]))))
  const entry = fc.record({ key: fc.constantFrom('k', 'l'), value: fc.constantFrom(...VALUES) })

  it('for any tree of exact values, wildcards and bare keys: the same branch, and none where it ends', () => {
    fc.assert(
      fc.property(
        tree,
        fc.array(fc.array(entry, { minLength: 1, maxLength: 3 }), { minLength: 20, maxLength: 20 }),
        (descriptors, checks) => {
          const text = stringify(JSON.parse(JSON.stringify({ domain: 'any', descriptors })))
          const reference = new EnvoyReference([text])
          const plane = new TwinPlane(imported([text]), 'whole')
          for (const entries of checks) {
            for (let times = 0; times < 3; times++) {
              const check = { region: 'here', domain: 'any', cost: 1, nowMs: 0 }
              const { allowed } = plane.check({ ...check, descriptors: [{ entries }] })
              const expected = reference.decide('any', [entries], 0)
              if (allowed !== expected) expect({ entries, allowed }).toBe(`allowed: ${expected}`)
            }
          }
        },
      ),
      { numRuns: 150 },
    )
  })
})

describe('policies written for Envoy again', () => {
  it.each(ENVOY_FIXTURES)('decide there as they do here, with $what', ({ texts, descriptors }) => {
    const policies = imported(texts)
    const { files, leftOut } = exportEnvoy(policies.map(({ document }) => document))
    expect(leftOut).toEqual([])
    const reference = new EnvoyReference(files.map(({ text }) => text))
    const plane = new TwinPlane(policies, 'whole')
    const { pick } = randomOf(5)
    for (let round = 0; round < 200; round++) {
      const entries = entriesOf(pick(descriptors))
      const { domain } = files[0] ?? { domain: '' }
      const check = { region: 'here', domain, cost: 1, nowMs: round * 9_000 }
      const { allowed } = plane.check({ ...check, descriptors: [{ entries }] })
      expect(reference.decide(domain, [entries], check.nowMs)).toBe(allowed)
    }
  })

  it('leave out what cannot be said there, and say which descriptors a branch gives up', () => {
    const limit = {
      name: 'l',
      algorithm: 'fixed_window',
      capacity: 5,
      windowMs: 60_000,
      split: { a: 100 },
    }
    const documents = [
      { name: 'bucket', match: [{ key: 'a' }], limits: [{ ...limit, algorithm: 'token_bucket' }] },
      { name: 'odd', match: [{ key: 'b' }], limits: [{ ...limit, windowMs: 90_000 }] },
      { name: 'exact', match: [{ key: 'c', value: '1' }, { key: 'd' }], limits: [limit] },
      { name: 'wide', match: [{ key: 'c' }, { key: 'e' }], limits: [limit] },
    ].map((document) => policyDocumentSchema.parse({ domain: 'd', ...document }))
    expect(exportEnvoy(documents).leftOut).toEqual([
      { policy: 'd/bucket', reason: 'counts by token_bucket' },
      { policy: 'd/odd', reason: 'has a window of 90000 ms, which is no unit there' },
      { policy: 'd:', reason: expect.stringContaining('c=1, e meets no limit there') },
    ])
  })
})

describe('an imported configuration of Envoy', () => {
  it('says what has no counterpart, and what only metrics had', () => {
    const text = `domain: some/thing
descriptors:
  - {key: "user*", rate_limit: {unit: second, requests_per_unit: 1}}
  - {key: user, detailed_metric: true}
  - {key: user_id}`
    const { policies, leftOut, notes } = envoyPolicies(filesOf([text]), options)
    expect(policies.map(({ domain, name }) => `${domain}/${name}`)).toEqual([
      'some-thing/user',
      'some-thing/user-id',
    ])
    expect(leftOut).toMatchObject([
      { line: 1, field: 'domain', message: expect.stringContaining('send some-thing') },
      { line: 3, field: 'descriptors[0]', message: expect.stringContaining('wildcard in its key') },
    ])
    expect(notes.map(({ line, message }) => `${line} ${message}`).sort()).toEqual([
      expect.stringContaining('4 is left out: metrics'),
      expect.stringContaining('4 there, user=id also meets user_id'),
    ])
    const domains = new Map([['some/thing', 'thing']])
    const renamed = envoyPolicies(filesOf([text]), { ...options, domains })
    expect(renamed.policies[0]?.domain).toBe('thing')
    expect(renamed.leftOut).toHaveLength(1)
  })

  it('leaves out quota mode, whose limits deny there once all of a check are over, and here nothing', () => {
    const text = `domain: quotas
descriptors:
  - {key: user, quota_mode: yes, rate_limit: {unit: day, requests_per_unit: 1}}
  - {key: plan, quota_mode: yes, rate_limit: {unit: day, requests_per_unit: 3}}
  - {key: watched, quota_mode: yes, shadow_mode: yes, rate_limit: {unit: day, requests_per_unit: 1}}`
    const { policies, leftOut } = envoyPolicies(filesOf([text]), options)
    expect(leftOut.map(({ line, field }) => `${line} ${field}`)).toEqual([
      '3 descriptors[0].quota_mode',
      '4 descriptors[1].quota_mode',
    ])
    const documents = policies.map((policy) => ({ document: policyDocumentSchema.parse(policy) }))
    const reference = new EnvoyReference([text])
    const plane = new TwinPlane(documents, 'whole')
    const asked = [['user=ann'], ['plan=free']].map(entriesOf)
    const check = { region: 'here', domain: 'quotas', cost: 1, nowMs: 0 }
    const here = [1, 2, 3, 4].map(
      () => plane.check({ ...check, descriptors: asked.map((entries) => ({ entries })) }).allowed,
    )
    const there = [1, 2, 3, 4].map(() => reference.decide('quotas', asked, 0))
    expect(there).toEqual([true, true, true, false])
    expect(here).toEqual([true, true, true, true])
  })

  it('is the same whenever it is imported again, each policy under its own name', () => {
    const long = 'x'.repeat(90)
    const text = `domain: names
descriptors:
  - {key: a, value: b, rate_limit: {unit: second, requests_per_unit: 1}}
  - {key: a-b, rate_limit: {unit: second, requests_per_unit: 1}}
  - {key: "${long}1", rate_limit: {unit: second, requests_per_unit: 1}}
  - {key: "${long}2", rate_limit: {unit: second, requests_per_unit: 1}}`
    const names = imported([text]).map(({ document }) => document.name)
    expect(new Set(names).size).toBe(4)
    expect(imported([text]).map(({ document }) => document.name)).toEqual(names)
  })
})

describe('a configuration that Envoy refuses is refused in its words, by line and field:', () => {
  const refused = (text: string) =>
    parseEnvoyConfig(text).problems.map(
      ({ line, field, message }) => `${line} ${field}: ${message}`,
    )
  const under = (descriptor: string) => `domain: d\ndescriptors:\n  - ${descriptor}`

  it.each([
    ['no domain', 'descriptors: []', '1 domain: config file cannot have empty domain'],
    ['nothing', '', '1 domain: config file cannot have empty domain'],
    ['no key', under('value: x'), '3 descriptors[0].key: descriptor has empty key'],
    [
      'an unknown key',
      under('{key: a, ratelimit: {}}'),
      "3 descriptors[0].ratelimit: config error, unknown key 'ratelimit' (did you mean rate_limit?)",
    ],
    [
      'a misspelt key deep down',
      under('key: a\n    rate_limit:\n      unit: day\n      request_per_unit: 5'),
      "6 descriptors[0].rate_limit.request_per_unit: config error, unknown key 'request_per_unit' (did you mean requests_per_unit?)",
    ],
    [
      'a list of no maps',
      under('{key: a, descriptors: [b]}'),
      '3 descriptors[0].descriptors[0]: config error, yaml file contains list of type other than map: b',
    ],
    [
      'a key that is no text',
      `${under('key: a')}\n0.25: x`,
      '4 0.25: config error, key is not of type string: 0.25',
    ],
    [
      'the same key and value twice',
      under('{key: a, value: b}\n  - {key: a_b}'),
      "4 descriptors[1]: duplicate descriptor composite key 'd.a_b'",
    ],
    [
      'the same twice further down',
      under('{key: a, descriptors: [{key: b}, {key: b}]}'),
      "3 descriptors[0].descriptors[1]: duplicate descriptor composite key 'd.a.b'",
    ],
    [
      'an unknown unit',
      under('{key: a, rate_limit: {unit: foo, requests_per_unit: 1}}'),
      "3 descriptors[0].rate_limit.unit: invalid rate limit unit 'foo'",
    ],
    [
      'the unit UNKNOWN',
      under('{key: a, rate_limit: {unit: unknown, requests_per_unit: 1}}'),
      "3 descriptors[0].rate_limit.unit: invalid rate limit unit 'unknown'",
    ],
    [
      'a unit of what is unlimited',
      under('{key: a, rate_limit: {unit: day, unlimited: true}}'),
      '3 descriptors[0].rate_limit.unit: should not specify rate limit unit when unlimited',
    ],
    [
      'an empty name in replaces',
      under('{key: a, rate_limit: {unit: day, requests_per_unit: 1, replaces: [{name: ""}]}}'),
      '3 descriptors[0].rate_limit.replaces[0]: should not have an empty replaces entry',
    ],
    [
      'its own name in replaces',
      under('{key: a, rate_limit: {name: n, unit: day, replaces: [{name: n}]}}'),
      '3 descriptors[0].rate_limit.replaces[0]: replaces should not contain name of same descriptor',
    ],
    [
      'a shared threshold of one value',
      under('{key: a, value: b, share_threshold: true}'),
      "3 descriptors[0].share_threshold: share_threshold can only be used with wildcard values, but found key 'a_b'",
    ],
    [
      'a number that is none',
      under('{key: a, rate_limit: {unit: day, requests_per_unit: 4294967296}}'),
      '3 descriptors[0].rate_limit.requests_per_unit: error loading config file: cannot unmarshal 4294967296 into uint32',
    ],
    [
      'a fraction',
      under('{key: a, value: 1.5}'),
      '3 descriptors[0].value: error checking config: 1.5',
    ],
    [
      'a switch that is none',
      under('{key: a, shadow_mode: 3}'),
      '3 descriptors[0].shadow_mode: error loading config file: cannot unmarshal 3 into bool',
    ],
  ])('%s', (_what, text, expected) => {
    expect(refused(text)).toEqual([expected])
  })

  it('broken YAML', () => {
    expect(refused('domain: d\ndescriptors: [')).toEqual([
      expect.stringMatching(/^\d : error loading config file: /),
    ])
  })

  it('one domain in two files, unless they are to be merged, and then one key twice', () => {
    const files = filesOf([under('key: a'), under('key: b'), under('key: a')])
    expect(mergeProblems(files, false).map(({ file, message }) => `${file} ${message}`)).toEqual([
      expect.stringMatching(/^1.yaml duplicate domain 'd' in config file/),
      expect.stringMatching(/^2.yaml duplicate domain 'd' in config file/),
    ])
    expect(mergeProblems(files, true)).toMatchObject([
      { file: '2.yaml', message: "duplicate descriptor composite key 'd.a'" },
    ])
  })

  it('nothing of what values may look like: they are taken as they are written', () => {
    const text = under(
      '{key: code, value: 007}\n  - {key: code, value: yes}\n  - {key: code, value: 0x1F}',
    )
    const { domain } = parseEnvoyConfig(text)
    expect(domain?.descriptors.map(({ value }) => value)).toEqual(['007', 'yes', '0x1F'])
  })
})
