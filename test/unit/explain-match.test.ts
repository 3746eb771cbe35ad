import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { explainMatch } from '../../shared/core/explain-match.ts'
import { buildPolicyIndex, matchPolicy } from '../../shared/core/policy-index.ts'
import { aRegionPolicy } from '../support/region-policy.ts'

const VALUES = ['a', 'ab', 'abc', 'b', 'a*']
const value = fc.constantFrom(undefined, 'a', 'ab', 'b', 'a*', '*b', 'a*c', '*')
const matchEntry = fc.record({ key: fc.constantFrom('k', 'l'), value }, { requiredKeys: ['key'] })
const match = fc.array(matchEntry, { minLength: 1, maxLength: 3 })
const entry = fc.record({ key: fc.constantFrom('k', 'l'), value: fc.constantFrom(...VALUES) })

const policiesOf = (matches: readonly (readonly { key: string; value?: string | undefined }[])[]) =>
  matches.map((one, position) =>
    aRegionPolicy({
      id: position + 1,
      name: `p${position}`,
      match: JSON.parse(JSON.stringify(one)),
    }),
  )

describe('the explanation of a match', () => {
  it('names the policy that enforcers find, whatever the policies, and every other that matches', () => {
    fc.assert(
      fc.property(
        fc.array(match, { maxLength: 25 }),
        fc.array(entry, { minLength: 1, maxLength: 3 }),
        (matches, entries) => {
          const policies = policiesOf(matches)
          const index = buildPolicyIndex({ version: 1, incarnation: 1, policies }, null)
          const explained = explainMatch(policies, { entries })
          expect(explained).toHaveLength(policies.length)
          const governing = explained.filter(({ verdict }) => verdict.kind === 'governs')
          expect(governing.map(({ policy }) => policy.id)).toEqual(
            [matchPolicy(index, 'api', { entries })?.id].filter(Boolean),
          )
          // Without the policies before it, each that lost would govern.
          const matching = explained.filter(({ verdict }) => 'how' in verdict)
          for (const [place, { policy }] of matching.entries()) {
            const rest = policies.filter(
              (one) => !matching.slice(0, place).some((before) => before.policy === one),
            )
            const without = buildPolicyIndex({ version: 1, incarnation: 1, policies: rest }, null)
            // Which of two wildcards is older may rest on a policy that is gone.
            if (matching.some((one) => one.policy.match.some((step) => step.value?.includes('*'))))
              break
            expect(matchPolicy(without, 'api', { entries })?.id).toBe(policy.id)
          }
        },
      ),
      { numRuns: 400 },
    )
  })

  it('says at which entry a policy loses, and at which it does not match', () => {
    const policies = policiesOf([
      [{ key: 'k' }, { key: 'l' }],
      [{ key: 'k', value: 'a*' }, { key: 'l' }],
      [
        { key: 'k', value: 'a*' },
        { key: 'l', value: 'b' },
      ],
      [{ key: 'k', value: 'x' }, { key: 'l' }],
      [{ key: 'k' }],
    ])
    const entries = [
      { key: 'k', value: 'ab' },
      { key: 'l', value: 'b' },
    ]
    const told = explainMatch(policies, { entries }).map(({ policy, verdict }) => [
      policy.name,
      verdict,
    ])
    expect(told).toEqual([
      ['p2', { kind: 'governs', how: ['wildcard', 'exact'] }],
      ['p1', { kind: 'lost', how: ['wildcard', 'any'], entry: 1 }],
      ['p0', { kind: 'lost', how: ['any', 'any'], entry: 0 }],
      ['p3', { kind: 'mismatch', entry: 0 }],
      ['p4', { kind: 'length' }],
    ])
  })
})
