import { describe, expect, it } from 'vitest'
import { changesPath, markedSince, marksOf } from '../../../services/dashboard/src/data/history.ts'
import { drawMarks, type Plot } from '../../../services/dashboard/src/parts/marks.ts'

/** A plot of buckets of 10 s and ten pixels a second, from 100 to 200; writes down what is drawn on it, and where. */
function plotOf() {
  const lines: number[] = []
  const words: string[] = []
  const nothing = (): void => {}
  const ctx = {
    ...{ strokeStyle: '', fillStyle: '', font: '', textAlign: '', save: nothing, restore: nothing },
    ...{ setLineDash: nothing, beginPath: nothing, stroke: nothing, lineTo: nothing },
    moveTo: (x: number) => lines.push(x),
    fillText: (text: string, x: number) => words.push(`${text} at ${x}`),
  }
  const plot: Plot = {
    ctx,
    bbox: { left: 0, top: 0, width: 1_000, height: 200 },
    scales: { x: { min: 100, max: 200 } },
    valToPos: (atS) => 10 * (atS - 100),
  }
  return { plot, lines, words }
}

const entry = (atS: number, revision: number | null) => ({
  at: new Date(atS * 1_000).toISOString(),
  revision,
})

describe('revisions on an axis of time', () => {
  it('are each drawn at their time with their number, and none beyond the ends', () => {
    const { plot, lines, words } = plotOf()
    const marks = marksOf([
      entry(210, 9),
      entry(180, 8),
      entry(150, null),
      entry(120, 7),
      entry(99, 6),
    ])
    drawMarks(plot, marks, { ink: '#000', scale: 1, stepS: 10 })
    expect(lines).toEqual([200, 800])
    expect(words).toEqual(['r7 at 203', 'r8 at 803'])
  })

  it('keep their lines where there is no room for their numbers', () => {
    const { plot, lines, words } = plotOf()
    drawMarks(plot, marksOf([entry(103, 3), entry(101, 1), entry(110, 4)]), {
      ink: '',
      scale: 1,
      stepS: 10,
    })
    expect(lines).toEqual([10, 30, 100])
    expect(words).toEqual(['r1 at 13', 'r4 at 103'])
  })

  it('of the last bucket, which begins where the axis ends, are drawn there, with their numbers before it', () => {
    const { plot, lines, words } = plotOf()
    drawMarks(plot, marksOf([entry(209, 2), entry(194, 1)]), { ink: '', scale: 1, stepS: 10 })
    expect(lines).toEqual([940, 1_000])
    expect(words).toEqual(['r1 at 943'])
    drawMarks(plot, marksOf([entry(209, 2)]), { ink: '', scale: 1, stepS: 10 })
    expect(words.at(-1)).toBe('r2 at 997')
  })

  it('are those of the stretch that is held, however many came later, and live the newest', () => {
    const span = { from: '2026-01-01T00:00:00.000Z', to: '2026-01-01T01:00:00.000Z' }
    const held = new URL(changesPath('api', 'per-tenant', span), 'http://admin').searchParams
    expect(Object.fromEntries(held)).toEqual({
      ...{ domain: 'api', objectKind: 'policy', objectId: 'api/per-tenant', limit: '100' },
      ...{ since: span.from, until: span.to },
    })
    expect(changesPath('api', 'per-tenant', null)).not.toMatch(/since|until/)
  })

  it('are said to be missing where more were made than one page of the log holds', () => {
    const items = [entry(150, 2), entry(120, 1)]
    const from = (atS: number) => ({ from: new Date(atS * 1_000).toISOString() })
    expect(markedSince({ items, next: 'more' }, from(110))).toBe(items[1]?.at)
    expect(markedSince({ items, next: 'more' }, from(120))).toBeNull()
    expect(markedSince({ items, next: null }, from(110))).toBeNull()
    expect(markedSince({ items: [], next: null }, from(110))).toBeNull()
    expect(markedSince(null, from(110))).toBeNull()
  })
})
