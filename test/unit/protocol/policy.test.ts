import { describe, expect, it } from 'vitest'
import { ALGORITHMS } from '../../../shared/core/policy.ts'
import {
  DESCRIPTION_BYTES_MAX,
  POLICY_FIXES,
  policyDocumentSchema,
  weightSteps,
} from '../../../shared/protocol/policy.ts'
import { problemsOf } from '../../../shared/protocol/zod-problems.ts'

const limit = {
  name: 'per-second',
  algorithm: 'token_bucket',
  capacity: 10,
  windowMs: 1_000,
  split: { 'us-east-1': 60, 'eu-west-1': 40 },
}
const document = {
  domain: 'api',
  name: 'per-tenant',
  match: [{ key: 'tenant' }],
  limits: [limit],
}
const calendar = { unit: 'hour', timeZone: 'UTC' }
const daily = { unit: 'day', timeZone: 'UTC' }
/** What is undefined is left out, as it is of JSON. */
const withLimit = (changes: object): object => ({
  ...document,
  limits: [JSON.parse(JSON.stringify({ ...limit, ...changes }))],
})

const withMatch = (entry: object): object => ({ ...document, match: [{ key: 'tenant', ...entry }] })

function problems(input: unknown) {
  const result = policyDocumentSchema.safeParse(input)
  return result.success ? [] : problemsOf(result.error, POLICY_FIXES)
}
const fields = (input: unknown): string[] => problems(input).map((problem) => problem.field)

describe('a policy document', () => {
  it('gets its defaults said in full', () => {
    expect(policyDocumentSchema.parse(document)).toEqual({
      ...document,
      description: '',
      mode: 'strict',
      objective: 'max-min',
      onStoreFailure: 'allow',
      shadow: false,
      unlimited: false,
      rebase: 'off',
      acceptSmallLimits: false,
      limits: [{ ...limit, floorPercent: 2, shards: 1, leases: 'auto' }],
    })
  })

  const notTokens = [
    -5,
    -0.5,
    1.5,
    '10',
    1e21,
    2 ** 53,
    null,
    undefined,
    true,
    [],
    '',
    '1 minute',
    '60',
    '1m',
    '1M',
    'PT1M',
  ]
  it.each(['capacity', 'windowMs', 'burst'])(
    'with a bad %s is refused by its field (B125, B127)',
    (field) => {
      const refused =
        field === 'burst' ? notTokens.filter((value) => value !== undefined) : notTokens
      for (const value of refused) {
        expect(fields(withLimit({ [field]: value })), String(value)).toEqual([`limits[0].${field}`])
      }
    },
  )

  it('with a window or burst of 0 is refused; a capacity of 0 denies all (B125, B127)', () => {
    expect(fields(withLimit({ windowMs: 0 }))).toEqual(['limits[0].windowMs'])
    expect(fields(withLimit({ burst: 0 }))).toEqual(['limits[0].burst'])
    expect(fields(withLimit({ capacity: 0 }))).toEqual([])
    expect(fields(withLimit({ capacity: 0, burst: 5 }))).toEqual(['limits[0].burst'])
  })

  it('without limits must say that it is unlimited, and with limits must not', () => {
    expect(fields({ ...document, unlimited: true, limits: [] })).toEqual([])
    expect(fields({ ...document, unlimited: true })).toEqual(['limits'])
    expect(fields({ ...document, limits: [] })).toEqual(['limits'])
  })

  it('says how to mend each number', () => {
    expect(problems(withLimit({ windowMs: 0 }))).toEqual([
      {
        field: 'limits[0].windowMs',
        message: 'must be a whole number from 1 to 31622400000, not 0',
        fix: 'give a whole number of milliseconds from 1 to 31622400000',
      },
    ])
  })

  it.each([
    ['a missing domain', { ...document, domain: undefined }, 'domain'],
    ['an empty domain', { ...document, domain: '' }, 'domain'],
    ['a name that a URL would change', { ...document, name: 'Per Tenant' }, 'name'],
    ['an empty match', { ...document, match: [] }, 'match'],
    ['an empty key', { ...document, match: [{ key: '' }] }, 'match[0].key'],
    ['an empty value', { ...document, match: [{ key: 'a', value: '' }] }, 'match[0].value'],
    ['a NUL in a key', { ...document, match: [{ key: 'a\0' }] }, 'match[0].key'],
    ['half a character', { ...document, description: '\ud800' }, 'description'],
    ['no limits', { ...document, limits: [] }, 'limits'],
    ['limits that are no list', { ...document, limits: {} }, 'limits'],
    ['two limits of one name', { ...document, limits: [limit, limit] }, 'limits[1].name'],
    ['an unknown algorithm', withLimit({ algorithm: 'leaky' }), 'limits[0].algorithm'],
    ['a burst on a window', withLimit({ algorithm: 'fixed_window', burst: 5 }), 'limits[0].burst'],
    ['a window beside a hold', withLimit({ holdMs: 5 }), 'limits[0].holdMs'],
    ['a calendar of a bucket', withLimit({ calendar }), 'limits[0].calendar'],
    ['no window (B127)', withLimit({ windowMs: undefined }), 'limits[0].windowMs'],
    ['too many shards', withLimit({ shards: 17 }), 'limits[0].shards'],
    ['an unknown choice of leases', withLimit({ leases: 'always' }), 'limits[0].leases'],
    ['a candidate without numbers', withLimit({ candidate: {} }), 'limits[0].candidate.capacity'],
    ['an unknown objective', { ...document, objective: 'fair' }, 'objective'],
    ['an unknown choice of rebasing', { ...document, rebase: 'on' }, 'rebase'],
    ['a shadow that is no boolean', { ...document, shadow: 'yes' }, 'shadow'],
    ['a percentage in strict', { ...document, relaxedPercent: 5 }, 'relaxedPercent'],
    ['a floor above 100', withLimit({ floorPercent: 101 }), 'limits[0].floorPercent'],
    ['an unknown mode', { ...document, mode: 'loose' }, 'mode'],
    ['an unknown failure behaviour', { ...document, onStoreFailure: 'safe' }, 'onStoreFailure'],
    ['a misspelt field', { ...document, limt: [] }, 'limt'],
    ['one value counted together', withMatch({ value: 'acme', shared: true }), 'match[0].shared'],
    ['itself as replaced', { ...withLimit({}), replaces: ['per-tenant'] }, 'replaces'],
    ['nothing replaced', { ...withLimit({}), replaces: [] }, 'replaces'],
    ['a tenant of many', { ...withMatch({ shared: true }), overridesBy: 'tenant' }, 'overridesBy'],
    ['a misspelt field of a limit', withLimit({ capcity: 3 }), 'limits[0].capcity'],
    ['a list', [], 'body'],
    ['nothing', null, 'body'],
  ])('with %s is refused by its field (B131)', (_mistake, input, field) => {
    expect(fields(input)).toEqual([field])
  })

  it.each([
    ['no time at all', { windowMs: undefined }, ['limits[0].windowMs']],
    ['a window and a calendar', { calendar }, ['limits[0].calendar']],
    [
      'a calendar of no unit',
      { windowMs: undefined, calendar: { timeZone: 'UTC' } },
      ['limits[0].calendar.unit'],
    ],
    [
      'an unknown time zone',
      { windowMs: undefined, calendar: { unit: 'day', timeZone: 'Mars/Olympus' } },
      ['limits[0].calendar.timeZone'],
    ],
  ])('of a fixed window with %s is refused by its field (B127)', (_mistake, changes, expected) => {
    expect(fields(withLimit({ algorithm: 'fixed_window', ...changes }))).toEqual(expected)
  })

  it('of mode eventual counts in fixed windows, and is told so otherwise', () => {
    const eventual = (changes: object) => problems({ ...withLimit(changes), mode: 'eventual' })
    expect(eventual({ algorithm: 'fixed_window' })).toEqual([])
    expect(eventual({})).toMatchObject([
      { field: 'limits[0].algorithm', message: expect.stringContaining('"fixed_window" only') },
    ])
    expect(
      eventual({ algorithm: 'fixed_window', windowMs: undefined, calendar: daily }),
    ).toMatchObject([{ field: 'limits[0].calendar' }])
  })

  it('may count each key in several shards, where its numbers divide evenly into them', () => {
    for (const algorithm of ALGORITHMS) {
      const times = algorithm === 'concurrency' ? { windowMs: undefined, holdMs: 5_000 } : {}
      const candidate = { capacity: 4 }
      expect(
        fields(withLimit({ algorithm, capacity: 100, shards: 4, candidate, ...times })),
      ).toEqual([])
    }
    const denying = { capacity: 0, burst: undefined, shards: 16 }
    expect(fields(withLimit(denying))).toEqual([])
  })

  it.each([
    ['a capacity', { capacity: 1_001 }, 'limits[0].capacity', '1000 or 1004'],
    ['fewer tokens than shards', { capacity: 3 }, 'limits[0].capacity', 'give 4'],
    ['a burst', { capacity: 8, burst: 6 }, 'limits[0].burst', '4 or 8'],
    ['a candidate', { candidate: { capacity: 7 } }, 'limits[0].candidate.capacity', '4 or 8'],
    [
      'the largest capacity',
      { capacity: Number.MAX_SAFE_INTEGER },
      'limits[0].capacity',
      '9007199254740988',
    ],
  ])(
    'with %s that does not divide evenly into shards is told what does',
    (_which, changes, field, fix) => {
      const sharded = withLimit({ capacity: 100, shards: 4, ...changes })
      expect(problems(sharded)).toMatchObject([{ field, message: expect.stringContaining(fix) }])
    },
  )

  it('with tiers that do not divide evenly into shards is told what does', () => {
    const tiers = { pro: { [limit.name]: { capacity: 601 } } }
    const sharded = { ...withLimit({ capacity: 100, shards: 4 }), tiers }
    expect(problems(sharded)).toMatchObject([
      { field: `tiers.pro.${limit.name}.capacity`, message: expect.stringContaining('600 or 604') },
    ])
  })

  it.each([
    ['a day', { algorithm: 'fixed_window', windowMs: 86_400_000 }, {}],
    ['a calendar day', { algorithm: 'fixed_window', windowMs: undefined, calendar: daily }, {}],
    ['mode eventual', { algorithm: 'fixed_window', windowMs: 60_000 }, { mode: 'eventual' }],
  ])('of %s has no shards, and is told so', (_which, changes, more) => {
    const sharded = { ...withLimit({ capacity: 100, shards: 4, ...changes }), ...more }
    expect(problems(sharded)).toMatchObject([
      { field: 'limits[0].shards', message: expect.stringContaining('leave it out') },
    ])
  })

  it('has as many shards in all of its limits, since one check goes to one of them', () => {
    const limits = [
      { ...limit, shards: 4, capacity: 100 },
      { ...limit, name: 'other', capacity: 100 },
    ]
    expect(problems({ ...document, limits })).toMatchObject([
      {
        field: 'limits[1].shards',
        message: 'is 1 where the first limit has 4: all limits of a policy have as many',
      },
    ])
  })

  it.each([
    ['that sum to 99', { 'us-east-1': 60, 'eu-west-1': 39 }, 'limits[0].split'],
    ['that sum to 100.01', { 'us-east-1': 60, 'eu-west-1': 40.01 }, 'limits[0].split'],
    ['of no region', {}, 'limits[0].split'],
    ['that are negative', { 'us-east-1': 110, 'eu-west-1': -10 }, 'limits[0].split.us-east-1'],
    [
      'with three decimals',
      { 'us-east-1': 60.001, 'eu-west-1': 39.999 },
      'limits[0].split.us-east-1',
    ],
    ['that are no numbers', { 'us-east-1': '60', 'eu-west-1': 40 }, 'limits[0].split.us-east-1'],
    ['of a region that cannot exist', { 'US East': 100 }, 'limits[0].split.US East'],
    ['that are missing', undefined, 'limits[0].split'],
  ])('with weights %s is refused by the field', (_mistake, split, field) => {
    expect(fields(withLimit({ split }))[0]).toBe(field)
  })

  it('may split in hundredths of a per cent, added up exactly', () => {
    const split = { a: 33.34, b: 33.33, c: 33.33 }
    expect(fields(withLimit({ split }))).toEqual([])
    expect(weightSteps(split)).toEqual({ a: 3334, b: 3333, c: 3333 })
    const tenths = Object.fromEntries(
      Array.from({ length: 10 }, (_, i) => [`r${i}`, i < 9 ? 10.1 : 9.1]),
    )
    expect(fields(withLimit({ split: tenths }))).toEqual([])
  })

  it('has a description up to its bound in bytes, not characters (B130)', () => {
    const ofBytes = (bytes: number): object => ({ ...document, description: 'é'.repeat(bytes / 2) })
    expect(fields(ofBytes(50_000))).toEqual([])
    expect(fields(ofBytes(DESCRIPTION_BYTES_MAX))).toEqual([])
    expect(fields(ofBytes(DESCRIPTION_BYTES_MAX + 2))).toEqual(['description'])
  })

  it('lists a bounded number of problems, and repeats a bounded part of the input', () => {
    const many = Object.fromEntries(Array.from({ length: 500 }, (_, i) => [`field${i}`, 1]))
    expect(problems({ ...document, ...many })).toHaveLength(20)
    const [problem] = problems({ ...document, mode: 'strict', name: 'X'.repeat(100_000) })
    expect(problem?.message.length).toBeLessThan(100)
  })
})
