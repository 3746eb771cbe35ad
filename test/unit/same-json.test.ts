import { isDeepStrictEqual } from 'node:util'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { isSameJson } from '../../shared/core/same-json.ts'

describe('two documents', () => {
  test.each([
    ['fields in another order', { a: 1, b: [{ c: 2, d: 3 }] }, { b: [{ d: 3, c: 2 }], a: 1 }, true],
    ['items in another order', { a: [1, 2] }, { a: [2, 1] }, false],
    ['a longer list', [1], [1, 2], false],
    ['a list and an object', [], {}, false],
    ['an object and a list', {}, [], false],
    ['null and nothing', { a: null }, {}, false],
    ['a field without a value and none', { a: undefined }, {}, false],
    ['as many fields, one of them without a value', { a: undefined }, { b: 1 }, false],
    ['a field that every object inherits', { toString: undefined }, { other: undefined }, false],
    ['a number and its text', { a: 1 }, { a: '1' }, false],
  ])('are compared by what they say: %s', (_what, one, other, isSame) => {
    expect(isSameJson(one, other)).toBe(isSame)
    expect(isDeepStrictEqual(one, other)).toBe(isSame)
  })

  test('are the same exactly where Node.js finds them deeply equal', () => {
    // Few names and values, so that equal documents come up by themselves.
    const document = fc.letrec((tie) => ({
      value: fc.oneof(
        { maxDepth: 3 },
        fc.constantFrom(null, true, 0, 1, '', 'a'),
        fc.array(tie('value'), { maxLength: 2 }),
        fc.dictionary(fc.constantFrom('a', 'b'), tie('value'), { noNullPrototype: true }),
      ),
    })).value
    fc.assert(
      fc.property(document, document, (one, other) => {
        expect(isSameJson(one, other)).toBe(isDeepStrictEqual(one, other))
        expect(isSameJson(one, structuredClone(one))).toBe(true)
      }),
    )
  })
})
