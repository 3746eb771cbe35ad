import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  type Count,
  type CountReport,
  CountTable,
  WHOLE_EVERY,
} from '../../../shared/core/estimate/count-table.ts'
import { decodeCounts, encodeCounts } from '../../../shared/protocol/counts.ts'
import { randomOf } from '../../support/random.ts'

const WINDOW_MS = 60_000
const ID = '{04s}1.0:tenant=acme'
const windowOf = (id: string): number | null => (id === ID ? WINDOW_MS : null)
const count = (used: number, startMs = 0): Count => ({ id: ID, startMs, used })
const report = (from: string, incarnation: number, ...counts: Count[]): CountReport => ({
  from,
  incarnation,
  counts,
})
const foreign = (table: CountTable, nowMs = 0): number => table.known(nowMs, windowOf)[0]?.used ?? 0

describe('counts of an eventual policy', () => {
  it('end alike whatever is lost before the last, repeated or reordered, in every region', () => {
    const reports = fc.array(
      fc.record({
        from: fc.constantFrom('b', 'c'),
        incarnation: fc.constantFrom(1, 2),
        used: fc.integer({ min: 1, max: 9 }),
      }),
      { minLength: 1, maxLength: 12 },
    )
    fc.assert(
      fc.property(reports, fc.integer(), (sent, seed) => {
        const random = randomOf(seed)
        const all = sent.map(({ from, incarnation, used }) =>
          report(from, incarnation, count(used)),
        )
        const shuffled = [...all, ...all].sort(() => random.below(3) - 1)
        const one = new CountTable()
        const other = new CountTable()
        for (const each of all) one.hear(each, 0, windowOf)
        for (const each of shuffled) other.hear(each, 0, windowOf)
        const highest = new Map<string, number>()
        for (const { from, incarnation, used } of sent) {
          const key = `${from} ${incarnation}`
          highest.set(key, Math.max(highest.get(key) ?? 0, used))
        }
        const expected = [...highest.values()].reduce((sum, used) => sum + used, 0)
        expect([foreign(one), foreign(other)]).toEqual([expected, expected])
      }),
    )
  })

  it('of a window that is over never count in the next, however late they come', () => {
    const table = new CountTable()
    table.hear(report('b', 1, count(3, WINDOW_MS)), WINDOW_MS, windowOf)
    table.hear(report('b', 1, count(5, 0)), WINDOW_MS, windowOf)
    expect(foreign(table, WINDOW_MS)).toBe(3)
  })

  it('of unknown limits and of windows far off are ignored', () => {
    const table = new CountTable()
    expect(table.hear(report('b', 1, { ...count(5), id: 'other' }), 0, windowOf)).toBe(false)
    expect(table.hear(report('b', 1, count(5, 3 * WINDOW_MS)), 0, windowOf)).toBe(false)
  })

  it('are published when they grew, and all of them now and then', () => {
    const table = new CountTable()
    table.countOwn([count(2)])
    expect(table.publish()).toEqual([count(2)])
    table.countOwn([count(2)])
    const later = Array.from({ length: WHOLE_EVERY }, () => table.publish().length)
    expect(later.filter((length) => length > 0)).toHaveLength(1)
  })

  it('are forgotten once their window is over for everybody', () => {
    const table = new CountTable()
    table.countOwn([count(2)])
    table.hear(report('b', 1, count(3)), 0, windowOf)
    table.forgetOld(2 * WINDOW_MS, windowOf)
    expect(table.size).toBe(0)
  })

  it('travel as they are, and what is no message is none', () => {
    const sent = report('us-east-1', 7, count(3), count(4, WINDOW_MS))
    expect(encodeCounts(sent).map(decodeCounts)).toEqual([sent])
    for (const payload of ['', '{}', '{"v":2}', encodeCounts(sent)[0]?.replace('7', '"7"') ?? '']) {
      expect(decodeCounts(payload)).toBeNull()
    }
  })
})

const [TICK_MS, STEP_MS, SKEW_MS] = [1_000, 10, 50]

/** One region under a steady load: what its Redis counts and was told, and when its daemon exchanges. */
class Region {
  readonly name: string
  readonly peak: number
  readonly #table = new CountTable()
  readonly #limit: number
  readonly #phaseMs: number
  #owed = 0
  used = 0
  #told = 0

  constructor(name: string, load: { limit: number; peak: number; phaseMs: number }) {
    this.name = name
    this.peak = load.peak
    this.#limit = load.limit
    this.#phaseMs = load.phaseMs
  }

  step(nowMs: number, heard: readonly CountReport[]): CountReport | null {
    this.#owed += (this.peak * STEP_MS) / 1_000
    const asked = Math.floor(this.#owed)
    this.#owed -= asked
    this.used += Math.min(asked, Math.max(0, this.#limit - this.#told - this.used))
    for (const one of heard) this.#table.hear(one, nowMs, windowOf)
    this.#told = Math.max(this.#told, foreign(this.#table, nowMs))
    if (nowMs % TICK_MS !== this.#phaseMs) return null
    this.#table.countOwn([count(this.used)])
    return report(this.name, 1, ...this.#table.publish())
  }
}

/**
 * By how much regions with one limit pass it in a window, each under a steady load, on a bus that delays or is cut; and
 * the bound of docs/consistency.md.
 */
function overshootOf(
  seed: number,
  isCut: boolean,
): { readonly over: number; readonly bound: number } {
  const random = randomOf(seed)
  const limit = 5 + random.below(200)
  const delayMs = STEP_MS * (1 + random.below(30))
  const regions = Array.from({ length: 2 + random.below(3) }, (_, index) => {
    const phaseMs = STEP_MS * random.below(TICK_MS / STEP_MS)
    return new Region(`r${index}`, { limit, peak: 1 + random.below(limit), phaseMs })
  })
  const mail = new Map<number, CountReport[]>()
  for (let nowMs = 0; nowMs < 12_000; nowMs += STEP_MS) {
    const heard = mail.get(nowMs) ?? []
    const sent = regions.flatMap((region) => {
      const one = region.step(
        nowMs,
        heard.filter(({ from }) => from !== region.name),
      )
      return one === null || isCut ? [] : [one]
    })
    mail.set(nowMs + delayMs, sent)
  }
  const peak = regions.reduce((sum, region) => sum + region.peak, 0)
  const others = (regions.length - 1) * limit
  // And two more of each region, since a load is dealt out in whole checks.
  const lag = (peak * (TICK_MS + delayMs + 2 * SKEW_MS)) / 1_000 + 2 * regions.length
  const used = regions.reduce((sum, region) => sum + region.used, 0)
  return { over: used - limit, bound: isCut ? others : Math.min(others, lag) }
}

describe('an eventual limit', () => {
  it('is passed by no more than what is admitted until the others know of it', () => {
    for (let seed = 1; seed <= 150; seed++) {
      const { over, bound } = overshootOf(seed, false)
      expect(over, `seed ${seed}`).toBeLessThanOrEqual(bound)
    }
  })

  it('admits up to the limit on each side of a cut, and no more', () => {
    let most = 0
    for (let seed = 1; seed <= 50; seed++) {
      const { over, bound } = overshootOf(seed, true)
      expect(over, `seed ${seed}`).toBeLessThanOrEqual(bound)
      most = Math.max(most, over / bound)
    }
    expect(most).toBe(1)
  })
})
