import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  DESCRIPTORS_MAX,
  ENTRIES_MAX,
  ENTRY_KEY_BYTES_MAX,
  ENTRY_VALUE_BYTES_MAX,
} from '../../shared/core/descriptor.ts'
import { isQuotaError } from '../../shared/errors.ts'
import { parseCheckRequest } from '../../shared/protocol/check-request.ts'

const entry = { key: 'tenant', value: 'acme' }
const body = (change: object = {}): object => ({
  domain: 'api',
  descriptors: [{ entries: [entry] }],
  ...change,
})
const withEntry = (change: object): object =>
  body({ descriptors: [{ entries: [{ ...entry, ...change }] }] })

/** The fields that a refusal names. */
function refused(input: unknown): string[] {
  try {
    parseCheckRequest(input)
  } catch (err) {
    if (!isQuotaError(err, 'QUOTA_INVALID_INPUT')) throw err
    expect(err.problems.every((problem) => problem.message !== '' && problem.fix !== '')).toBe(true)
    return err.problems.map((problem) => problem.field)
  }
  return []
}

describe('parseCheckRequest', () => {
  it('takes a cost of one where none is given', () => {
    expect(parseCheckRequest(body())).toEqual({ ...body(), cost: 1 })
  })

  it.each([[0], [1], [Number.MAX_SAFE_INTEGER], [JSON.parse('2.0')], [JSON.parse('-0')]])(
    'takes a cost of %s',
    (cost) => {
      expect(Object.is(parseCheckRequest(body({ cost })).cost, cost + 0)).toBe(true)
    },
  )

  it.each([
    [-1],
    [-0.5],
    [1.5],
    ['1'],
    ['-1'],
    [null],
    [true],
    [[1]],
    [{}],
    [JSON.parse('1e309')],
    [Number.NaN],
    [2 ** 53],
    [2 ** 63],
    [JSON.parse('9007199254740993')],
  ])('refuses a cost of %s by name', (cost) => {
    expect(refused(body({ cost }))).toEqual(['cost'])
  })

  it.each([[null], [undefined], ['{}'], [1], [[]], [[body()]]])('refuses %o as a body', (input) => {
    expect(refused(input)).toEqual(['body'])
  })

  it.each([
    ['an empty domain', body({ domain: '' }), 'domain'],
    ['no domain', { descriptors: [{ entries: [entry] }] }, 'domain'],
    ['a domain that is no text', body({ domain: 7 }), 'domain'],
    ['a domain without end', body({ domain: 'd'.repeat(257) }), 'domain'],
    ['no descriptors', { domain: 'api' }, 'descriptors'],
    ['descriptors that are no list', body({ descriptors: {} }), 'descriptors'],
    ['an empty list of descriptors', body({ descriptors: [] }), 'descriptors'],
    [
      'too many descriptors',
      body({ descriptors: Array(DESCRIPTORS_MAX + 1).fill({ entries: [entry] }) }),
      'descriptors',
    ],
    ['a descriptor that is no object', body({ descriptors: [null] }), 'descriptors[0]'],
    ['no entries', body({ descriptors: [{}] }), 'descriptors[0].entries'],
    ['empty entries', body({ descriptors: [{ entries: [] }] }), 'descriptors[0].entries'],
    [
      'too many entries',
      body({ descriptors: [{ entries: Array(ENTRIES_MAX + 1).fill(entry) }] }),
      'descriptors[0].entries',
    ],
    [
      'an entry that is no object',
      body({ descriptors: [{ entries: [entry, 'x'] }] }),
      'descriptors[0].entries[1]',
    ],
    ['an empty key', withEntry({ key: '' }), 'descriptors[0].entries[0].key'],
    ['an empty value', withEntry({ value: '' }), 'descriptors[0].entries[0].value'],
    ['a number as value', withEntry({ value: 5 }), 'descriptors[0].entries[0].value'],
    ['null as value', withEntry({ value: null }), 'descriptors[0].entries[0].value'],
    ['half a character', withEntry({ value: 'a\ud83d' }), 'descriptors[0].entries[0].value'],
    ['a field nobody knows', body({ hits: 1 }), 'hits'],
    [
      'a field nobody knows in a descriptor',
      body({ descriptors: [{ entries: [entry], limit: {} }] }),
      'descriptors[0].limit',
    ],
    ['a field nobody knows in an entry', withEntry({ val: 'x' }), 'descriptors[0].entries[0].val'],
    ['__proto__ as a field', JSON.parse('{"__proto__":{"domain":"api"}}'), '__proto__'],
  ])('refuses %s by name', (_what, input, field) => {
    expect(refused(input)).toContain(field)
  })

  it('counts keys and values in bytes of UTF-8', () => {
    expect(refused(withEntry({ key: 'k'.repeat(ENTRY_KEY_BYTES_MAX) }))).toEqual([])
    expect(refused(withEntry({ key: 'é'.repeat(ENTRY_KEY_BYTES_MAX / 2) }))).toEqual([])
    expect(refused(withEntry({ key: `${'é'.repeat(ENTRY_KEY_BYTES_MAX / 2)}x` }))).toEqual([
      'descriptors[0].entries[0].key',
    ])
    expect(refused(withEntry({ value: '😀'.repeat(ENTRY_VALUE_BYTES_MAX / 4) }))).toEqual([])
    expect(refused(withEntry({ value: 'v'.repeat(ENTRY_VALUE_BYTES_MAX + 1) }))).toEqual([
      'descriptors[0].entries[0].value',
    ])
  })

  it('takes spaces, controls, emoji, right-to-left text, patterns and names of JavaScript', () => {
    for (const odd of [' ', '\u0000\n', '😀', 'שלום', '*?[', '__proto__', 'constructor']) {
      expect(refused(withEntry({ key: odd, value: odd }))).toEqual([])
    }
  })

  it('names every field that is wrong, up to a bound', () => {
    expect(refused({ domain: '', descriptors: [{ entries: [{ key: '' }] }], cost: -1 })).toEqual([
      'domain',
      'descriptors[0].entries[0].key',
      'descriptors[0].entries[0].value',
      'cost',
    ])
    expect(
      refused(body({ descriptors: Array(16).fill({ entries: Array(16).fill({}) }) })),
    ).toHaveLength(20)
  })

  it('takes or refuses any JSON, and never breaks', () => {
    fc.assert(fc.property(fc.jsonValue(), (input) => void refused(input)))
    const nearly = fc.record(
      {
        domain: fc.oneof(fc.string(), fc.jsonValue()),
        descriptors: fc.array(
          fc.oneof(fc.record({ entries: fc.array(fc.jsonValue()) }), fc.jsonValue()),
        ),
        cost: fc.oneof(fc.double(), fc.jsonValue()),
      },
      { requiredKeys: [] },
    )
    fc.assert(fc.property(nearly, (input) => void refused(input)))
  })
})
