import { createHash } from 'node:crypto'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  counterId,
  counterName,
  parseCounterId,
  partName,
  SLOT_GROUP_TAGS,
  SLOT_GROUPS,
  valueInName,
  wholeName,
} from '../../shared/core/counter-id.ts'
import {
  partGroup,
  partOfRequest,
  partTokens,
  SHARDS_MAX,
} from '../../shared/core/counter-parts.ts'
import { REGIONS_MAX, shareBurst, shareTokens, TOKENS_MAX } from '../../shared/core/units.ts'
import { keySlot } from '../../shared/redis/key-slot.ts'

const shards = fc.integer({ min: 1, max: SHARDS_MAX })
const sha256 = (text: string): string => createHash('sha256').update(text).digest('base64url')

describe('the parts of a key', () => {
  it('never have more tokens together than the limit, however each is shared between regions', () => {
    const weights = fc.array(fc.nat({ max: 1_000 }), { minLength: 1, maxLength: REGIONS_MAX })
    const tokens = fc.oneof(
      fc.nat({ max: 2_000 }),
      fc.nat({ max: TOKENS_MAX }),
      fc.constant(TOKENS_MAX),
    )
    const pools = fc.array(weights.map(poolOf), { minLength: SHARDS_MAX, maxLength: SHARDS_MAX })
    fc.assert(
      fc.property(tokens, shards, pools, (all, n, poolOfPart) => {
        const part = partTokens(all, n)
        const shares = poolOfPart.slice(0, n).flat()
        for (const share of [shareTokens, shareBurst]) {
          const eighths = shares.map((units) => BigInt(8 * share(part, units)))
          expect(eighths.reduce((sum, one) => sum + one, 0n) <= 8n * BigInt(all)).toBe(true)
        }
      }),
    )
  })

  it('have all tokens of a limit that divides evenly', () => {
    fc.assert(
      fc.property(fc.nat({ max: 1_000_000 }), shards, (each, n) => {
        expect(partTokens(each * n, n) * n).toBe(each * n)
      }),
    )
  })

  it('are each in a slot group of its own', () => {
    for (let group = 0; group < SLOT_GROUPS; group++) {
      const groups = Array.from({ length: SHARDS_MAX }, (_, part) => partGroup(group, part))
      expect(new Set(groups).size).toBe(SHARDS_MAX)
      expect(groups[0]).toBe(group)
    }
  })

  it.each([2, 4, 8, 16])('are spread evenly over a cluster of %i masters', (masters) => {
    for (let group = 0; group < SLOT_GROUPS; group++) {
      const held = Array.from({ length: masters }, (_, part) => {
        const tag = SLOT_GROUP_TAGS[partGroup(group, part)]
        return Math.floor((keySlot(`{${tag}}`) * masters) / 16_384)
      })
      expect(new Set(held).size).toBe(masters)
    }
  })

  const ids: readonly [string, (request: number) => string][] = [
    ['counted behind a prefix', (request) => `Zm9vYmFyYmF6cXV4-${request}`],
    ['counted', String],
    ['random', (request) => sha256(String(request))],
    ['counted before a suffix', (request) => `order-${request}-retry`],
  ]
  it.each(ids)('get about as many requests each whose ids are %s', (_which, idOf) => {
    const requests = Array.from({ length: 16_000 }, (_, request) => idOf(request))
    for (const n of [2, 3, 4, 16]) {
      const counts = new Map<number, number>()
      for (const id of requests) {
        const part = partOfRequest(id, n)
        counts.set(part, (counts.get(part) ?? 0) + 1)
      }
      const even = requests.length / n
      const farthest = Math.max(...[...counts.values()].map((count) => Math.abs(count - even)))
      expect(counts.size).toBe(n)
      // Six standard deviations of an even choice.
      expect(farthest).toBeLessThan(6 * Math.sqrt(even))
    }
  })

  it('have counters of their own, whose names tell the key', () => {
    const text = fc.string({ unit: 'binary', maxLength: 80 })
    const entries = fc.array(fc.record({ key: text, value: text }), { minLength: 1, maxLength: 3 })
    const one = fc.record({ entries, part: fc.nat({ max: SHARDS_MAX - 1 }) })
    const nameOf = (of: { entries: { key: string; value: string }[]; part: number }): string =>
      partName(counterName(of.entries, sha256), of.part)
    fc.assert(
      fc.property(one, one, (first, second) => {
        const isSame = JSON.stringify(first) === JSON.stringify(second)
        expect(nameOf(first) === nameOf(second)).toBe(isSame)
        expect(wholeName(nameOf(first))).toBe(counterName(first.entries, sha256))
        expect(valueInName(nameOf(first), 0)).toBe(valueInName(nameOf({ ...first, part: 0 }), 0))
        const id = { group: 3, limitId: 7, usageEpoch: 0, name: nameOf(first) }
        expect(parseCounterId(counterId(id))).toEqual(id)
      }),
    )
  })
})

/** Whole units that sum to the pool. */
function poolOf(weights: readonly number[]): readonly number[] {
  const all = weights.reduce((sum, weight) => sum + weight, 0)
  if (all === 0) return [1_000_000]
  const units = weights.map((weight) => Math.floor((weight * 1_000_000) / all))
  const left = 1_000_000 - units.reduce((sum, one) => sum + one, 0)
  return [(units[0] ?? 0) + left, ...units.slice(1)]
}
