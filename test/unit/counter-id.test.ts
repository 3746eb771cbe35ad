import { createHash } from 'node:crypto'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  COUNTER_NAME_LENGTH_MAX,
  counterId,
  counterName,
  parseCounterId,
  SLOT_GROUP_TAGS,
  SLOT_GROUPS,
  slotGroup,
} from '../../shared/core/counter-id.ts'

const sha256 = (text: string): string => createHash('sha256').update(text).digest('base64url')

const entries = fc.array(
  fc.record({
    key: fc.string({ unit: 'binary', maxLength: 12 }),
    value: fc.string({ unit: 'binary', maxLength: 12 }),
  }),
  { maxLength: 4 },
)

/** CRC16 as Redis Cluster computes it (XMODEM). */
function crc16(text: string): number {
  let crc = 0
  for (const byte of Buffer.from(text)) {
    crc ^= byte << 8
    for (let bit = 0; bit < 8; bit++) {
      crc = (crc & 0x8000) !== 0 ? ((crc << 1) ^ 0x1021) & 0xffff : (crc << 1) & 0xffff
    }
  }
  return crc
}

describe('a counter name', () => {
  it('differs for descriptors that differ', () => {
    fc.assert(
      fc.property(entries, entries, (one, other) => {
        const same = JSON.stringify(one) === JSON.stringify(other)
        expect(counterName(one, sha256) === counterName(other, sha256)).toBe(same)
      }),
    )
  })

  it('does not confuse separators in values with separators between entries', () => {
    const names = [
      [{ key: 'a', value: 'b,c=d' }],
      [
        { key: 'a', value: 'b' },
        { key: 'c', value: 'd' },
      ],
      [{ key: 'a=b,c', value: 'd' }],
      [{ key: 'a', value: 'b%002cc=d' }],
    ].map((list) => counterName(list, sha256))
    expect(new Set(names).size).toBe(names.length)
  })

  it('keeps lone surrogates apart, which UTF-8 would merge', () => {
    const names = ['\ud800', '\udbff', '\udc00', '\ufffd'].map((value) =>
      Buffer.from(counterName([{ key: 'k', value }], sha256)).toString('hex'),
    )
    expect(new Set(names).size).toBe(4)
  })

  it('is bounded: a long descriptor is named by its hash, which no short one can equal', () => {
    const long = counterName([{ key: 'k', value: 'x'.repeat(1_000_000) }], sha256)
    expect(long).toHaveLength(44)
    expect(long.startsWith('#')).toBe(true)
    expect(counterName([{ key: long, value: '' }], sha256).startsWith('#')).toBe(false)
    const edge = 'x'.repeat(COUNTER_NAME_LENGTH_MAX - 2)
    expect(counterName([{ key: 'k', value: edge }], sha256)).toBe(`k=${edge}`)
  })
})

describe('a counter id', () => {
  it('gives its parts back', () => {
    fc.assert(
      fc.property(
        entries,
        fc.nat({ max: SLOT_GROUPS - 1 }),
        fc.nat(),
        fc.nat(),
        (list, group, limitId, usageEpoch) => {
          const parts = { group, limitId, usageEpoch, name: counterName(list, sha256) }
          expect(parseCounterId(counterId(parts))).toEqual(parts)
        },
      ),
    )
  })

  it('is not read out of what is none', () => {
    for (const text of ['', 'x', '{zzz}1.2:a', '{04s}1:a', '{04s}-1.2:a', '{04s}1e3.0:a']) {
      expect(parseCounterId(text)).toBeNull()
    }
  })
})

describe('slot groups', () => {
  it('lie evenly spaced over the slots of a cluster', () => {
    const slots = SLOT_GROUP_TAGS.map((tag) => crc16(tag) % 16_384)
    expect(slots).toEqual(SLOT_GROUP_TAGS.map((_, index) => 512 + index * 1_024))
  })

  it('take about equally many tenants', () => {
    const counts = new Array<number>(SLOT_GROUPS).fill(0)
    for (let tenant = 0; tenant < 16_000; tenant++) {
      const group = slotGroup({
        domain: 'api',
        entries: [{ key: 'tenant', value: `t${tenant}` }],
      })
      counts[group] = (counts[group] ?? 0) + 1
    }
    expect(Math.min(...counts)).toBeGreaterThan(850)
    expect(Math.max(...counts)).toBeLessThan(1_150)
  })

  it('do not depend on the entries after the first', () => {
    const first = { key: 'tenant', value: 'acme' }
    const alone = slotGroup({ domain: 'api', entries: [first] })
    const more = slotGroup({ domain: 'api', entries: [first, { key: 'path', value: '/x' }] })
    expect(more).toBe(alone)
  })
})
