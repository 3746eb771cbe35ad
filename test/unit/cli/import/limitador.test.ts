import { describe, expect, it } from 'vitest'
import { parse } from 'yaml'
import { parseLimitadorLimits } from '../../../../services/cli/import/limitador-limits.ts'
import { limitadorPolicies } from '../../../../services/cli/import/limitador-policies.ts'
import { TwinPlane } from '../../../../services/cli/simulate/twin-plane.ts'
import { policyDocumentSchema } from '../../../../shared/protocol/policy.ts'
import { randomOf } from '../../../support/random.ts'

const split = { 'us-east-1': 60, 'eu-west-1': 40 }
const domains = new Map<string, string>()

function imported(text: string, shapes: readonly (readonly string[])[] = []) {
  const { limits, problems } = parseLimitadorLimits(text)
  expect(problems).toEqual([])
  return limitadorPolicies('limits.yaml', limits, { split, domains, shapes })
}

interface YamlLimit {
  readonly namespace: string
  readonly seconds: number
  readonly max_value: number
  readonly conditions: readonly string[]
  readonly variables: readonly string[]
}
type Values = Readonly<Record<string, string>>

/**
 * A plain reading of Limitador's rules: every limit of the namespace whose conditions hold and whose variables are
 * there counts the check by its variables' values; the check passes when all have room. Windows begin with the first
 * check there; the checks below come at instants where that makes no difference.
 */
class Reference {
  readonly #limits: readonly YamlLimit[]
  readonly #counts = new Map<string, number>()

  constructor(text: string) {
    this.#limits = parse(text)
  }

  decide(namespace: string, values: Values, nowMs: number): boolean {
    const own = this.#limits.filter(
      (limit) => limit.namespace === namespace && holds(limit, values),
    )
    const keys = own.map((limit) => {
      const counted = limit.variables.map((variable) => values[keyOf(variable)])
      const window = Math.floor(nowMs / (1_000 * limit.seconds))
      return JSON.stringify([this.#limits.indexOf(limit), counted, window])
    })
    const count = (key: string | undefined): number => this.#counts.get(key ?? '') ?? 0
    const allowed = own.every((limit, at) => count(keys[at]) < limit.max_value)
    if (allowed) for (const key of keys) this.#counts.set(key, count(key) + 1)
    return allowed
  }
}

function holds({ conditions, variables }: YamlLimit, values: Values): boolean {
  const areThere = variables.every((variable) => values[keyOf(variable)] !== undefined)
  return (
    areThere &&
    conditions.every((condition) => {
      const [, left = '', operator, literal] = /^(.+?) (==|!=) ['"](.*)['"]$/.exec(condition) ?? []
      const value = values[keyOf(left)]
      return value !== undefined && (operator === '==') === (value === literal)
    })
  )
}

function keyOf(reference: string): string {
  return reference.replace(/^descriptors\[\d+\]/, '').replace(/^\.|^\['|'\]$/g, '')
}

const FIXTURES: readonly {
  readonly what: string
  readonly text: string
  readonly values: Readonly<Record<string, readonly string[]>>
}[] = [
  {
    what: 'a condition and a variable',
    text: `
- namespace: example.org
  max_value: 3
  seconds: 60
  conditions: ["descriptors[0].req_method == 'GET'"]
  variables: ["descriptors[0].user_id"]
- namespace: example.org
  max_value: 2
  seconds: 60
  conditions: ["descriptors[0].req_method == 'POST'"]
  variables: ["descriptors[0].user_id"]`,
    values: { req_method: ['GET', 'POST', 'PUT'], user_id: ['1', '2'] },
  },
  {
    what: 'keys with dots, two windows at once, and no variable',
    text: `
- {name: slow, namespace: test_namespace, max_value: 10, seconds: 60, conditions: ["descriptors[0]['req.method'] == 'GET'"], variables: []}
- {name: fast, namespace: test_namespace, max_value: 5, seconds: 10, conditions: ["descriptors[0]['req.method'] == 'GET'"], variables: []}
- {namespace: test_namespace, max_value: 4, seconds: 60, conditions: ["descriptors[0]['req.method'] == 'POST'", "descriptors[0]['req.path'] != '/json'"], variables: []}`,
    values: { 'req.method': ['GET', 'POST', 'PUT'], 'req.path': ['/', '/json', '/x'] },
  },
  {
    what: 'conditions of the older form',
    text: `
- namespace: old
  max_value: 2
  seconds: 60
  conditions: ["KEY_A == 'VALUE_A'"]
  variables: []
- namespace: old
  max_value: 3
  seconds: 3600
  conditions: ["KEY_A == 'VALUE_B'"]
  variables: [MY_VAR]`,
    values: { KEY_A: ['VALUE_A', 'VALUE_B', 'VALUE_C'], MY_VAR: ['1', '2'] },
  },
  {
    what: 'everything but one value, counted together and apart',
    text: `
- {namespace: but, max_value: 3, seconds: 60, conditions: ["descriptors[0].plan != 'free'"], variables: []}
- {namespace: but, max_value: 1, seconds: 60, conditions: ["descriptors[0].plan == 'free'", 'descriptors[0].path != "/health"'], variables: ["descriptors[0].user"]}`,
    values: { plan: ['free', 'pro', 'max'], path: ['/', '/health'], user: ['a', 'b'] },
  },
]

describe('imported limits of Limitador decide as before', () => {
  it.each(FIXTURES)('with $what', ({ text, values }) => {
    const { policies, leftOut } = imported(text)
    expect(leftOut).toEqual([])
    const [shape = []] = [policies[0]?.match.map(({ key }) => key)]
    const namespace = policies[0]?.domain ?? ''
    const documents = policies.map((policy) => ({ document: policyDocumentSchema.parse(policy) }))
    const plane = new TwinPlane(documents, 'whole')
    const reference = new Reference(text)
    const { below, pick } = randomOf(3)
    const seen = new Set<boolean>()
    let nowMs = 0
    for (let round = 0; round < 600; round++) {
      if (below(12) === 0) nowMs += 10_000 * (1 + below(40))
      const entries = shape.map((key) => ({ key, value: pick(values[key] ?? ['?']) }))
      const named = Object.fromEntries(entries.map(({ key, value }) => [key, value]))
      const expected = reference.decide(namespace, named, nowMs)
      const check = { region: 'here', domain: namespace, cost: 1, nowMs }
      const { allowed } = plane.check({ ...check, descriptors: [{ entries }] })
      if (allowed !== expected) expect({ named, nowMs, allowed }).toBe(`allowed: ${expected}`)
      seen.add(allowed)
    }
    expect(seen.size).toBe(2)
  })
})

describe('of the limits of Limitador', () => {
  const one = (changes: object): string =>
    JSON.stringify([
      { namespace: 'n', seconds: 60, max_value: 5, conditions: [], variables: [], ...changes },
    ])
  const both = (first: object, second: object): string =>
    `${one(first).slice(0, -1)},\n${one(second).slice(1)}`
  const reasons = (text: string, shapes?: readonly (readonly string[])[]) =>
    imported(text, shapes).leftOut.map(({ line, field, message }) => `${line} ${field} ${message}`)

  it.each([
    [
      'a condition that is more than a comparison',
      one({ conditions: ['size(descriptors[0].a) > 3'] }),
      /^1 \[0\]\.conditions\[0\] is a condition of another kind/,
    ],
    [
      'a variable that is more than a key',
      one({ variables: ['descriptors[0].a + descriptors[0].b'] }),
      /^1 \[0\]\.variables\[0\] is a variable of another kind/,
    ],
    [
      'a value that would be a pattern here',
      one({ conditions: ["descriptors[0].a == 'x*'"] }),
      /compares with a value that is empty or has a \*/,
    ],
    [
      'a limit about two descriptors',
      one({ variables: ['descriptors[0].a', 'descriptors[1].b'] }),
      /several descriptors of a check at once/,
    ],
    ['a limit about nothing that is known', one({}), /say which have them with --descriptor/],
    [
      'a limit that counts together what another tells apart',
      both(
        { conditions: ["descriptors[0].m == 'GET'"], variables: ['descriptors[0].u'] },
        { variables: ['descriptors[0].u'] },
      ),
      /^2 \[1\] counts together what conditions of other limits tell apart/,
    ],
    [
      'a limit that counts by less than another',
      both(
        { variables: ['descriptors[0].u', 'descriptors[0].p'] },
        { variables: ['descriptors[0].u'] },
      ),
      /^2 \[1\] counts by other variables/,
    ],
    [
      'the same limit again',
      both({ variables: ['descriptors[0].u'] }, { variables: ['descriptors[0].u'], max_value: 7 }),
      /^2 \[1\] has the namespace, seconds, conditions and variables of \[0\]/,
    ],
  ])('%s is left out, with the reason', (_what, text, reason) => {
    expect(reasons(text)).toEqual([expect.stringMatching(reason)])
  })

  it('those of other entries than limits name are known once it is said which descriptors have them', () => {
    const text = both({}, { namespace: 'm', variables: ['descriptors[0].u'] })
    const { policies, leftOut } = imported(text, [['path', 'u']])
    expect(leftOut).toEqual([])
    expect(policies.map(({ domain, match }) => ({ domain, match }))).toEqual([
      {
        domain: 'n',
        match: [
          { key: 'path', shared: true },
          { key: 'u', shared: true },
        ],
      },
      { domain: 'm', match: [{ key: 'path', shared: true }, { key: 'u' }] },
    ])
    expect(reasons(text, [['path', 'u'], ['u']])).toEqual([
      expect.stringContaining('is about several of the descriptors given'),
      expect.stringContaining('is about several of the descriptors given'),
    ])
  })

  it.each([
    [
      'a missing field',
      '- {namespace: n, seconds: 60, conditions: [], variables: []}',
      '1 [0].max_value is missing',
    ],
    [
      'a misspelt field',
      `- ${one({ secnds: 60 }).slice(1, -1)}`,
      '1 [0].secnds is not a field of a limit (did you mean seconds?)',
    ],
    [
      'no whole number',
      one({ seconds: 1.5 }),
      '1 [0].seconds must be a whole number of at least 1',
    ],
    ['no list', 'namespace: n', '1  must be a list of limits'],
  ])('%s is refused, by line and field', (_what, text, expected) => {
    const { problems } = parseLimitadorLimits(text)
    expect(problems.map(({ line, field, message }) => `${line} ${field} ${message}`)).toEqual([
      expected,
    ])
  })
})
