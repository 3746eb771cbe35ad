import { describe, expect, it } from 'vitest'
import { LiveScreen } from '../../../services/cli/demo/live-screen.ts'
import { demoLoad } from '../../../services/cli/demo/shift.ts'
import { summariseShift } from '../../../services/cli/demo/summary.ts'
import { exampleSplit } from '../../../services/cli/plane/seed.ts'
import { table } from '../../../services/cli/table.ts'

const frame = {
  second: 3,
  limit: 1_000,
  note: 'load 60/40',
  rows: [
    { region: 'us', sharePercent: 60, demand: 720, admitted: 600, denied: 120 },
    { region: 'eu', sharePercent: null, demand: 480, admitted: 400, denied: 80 },
  ],
}

function drawn(isTerminal: boolean, hasColour: boolean): string {
  let text = ''
  const screen = new LiveScreen({
    write: (part) => {
      text += part
    },
    isTerminal,
    hasColour,
  })
  screen.draw(frame)
  screen.draw(frame)
  return text
}

const ESCAPE = '\u001b'

describe('the live screen', () => {
  it('writes one plain line a second where nobody watches', () => {
    const lines = drawn(false, false).trimEnd().split('\n')
    expect(lines).toHaveLength(2)
    expect(lines[0]).toBe(
      '  3 s  us share 60 % demand 720 admitted 600 denied 120 | eu share - demand 480 admitted 400 denied 80 | together 1000 of 1000',
    )
  })

  it('redraws its table in place on a terminal, without colour where none is wanted', () => {
    const plain = drawn(true, false)
    expect(plain).toContain(`${ESCAPE}[6A${ESCAPE}[J`)
    expect(plain).not.toContain(`${ESCAPE}[1m`)
    expect(drawn(true, true)).toContain(`${ESCAPE}[1m`)
    expect(plain).toMatch(/together +1,200 +1,000 +200\n/)
  })
})

describe('the demo', () => {
  it('offers 1,200 a second before and after the turn, whatever the number of regions', () => {
    for (const regions of [1, 2, 3, 5]) {
      for (const { offered } of demoLoad(regions, 40).phases) {
        expect(offered.reduce((sum, rate) => sum + rate, 0)).toBeCloseTo(1_200)
      }
    }
    expect(demoLoad(2, 40).phases.map(({ offered }) => offered)).toEqual([
      [720, 480],
      [120, 1_080],
    ])
  })

  it('ends with a sentence, and never hides an overshoot in it', () => {
    const report = {
      limit: 1_000,
      admittedMaxPerSecond: 1_050,
      overshoot: 0,
      splitBefore: [60, 40],
      splitAfter: [12, 88],
      convergenceMs: 420,
      utilisation: 0.981,
      checks: 48_000,
      checkP50Ms: 1.2,
      checkP99Ms: 6.1,
    }
    const summary = (part: Partial<typeof report>): string =>
      summariseShift({ report: { ...report, ...part }, failed: 0, planned: 48_000 }, ['us', 'eu'])
    const good = summary({})
    expect(good).toContain('never admitted more than their one limit allows')
    expect(good).toContain('0.4 s after it moved')
    expect(good).not.toContain('too busy')
    const bad = summary({ overshoot: 7 })
    expect(bad).toContain('The limit was exceeded: 7 checks too many')
    const slow = { report, failed: 0, planned: 96_000 }
    expect(summariseShift(slow, ['us', 'eu'])).toContain('more than 50 % of the planned')
    expect(summariseShift({ ...slow, report: { ...report, convergenceMs: null } }, [])).toContain(
      'did not follow',
    )
  })
})

describe('the example split', () => {
  it('is 60/40 for two regions, and always sums to 100', () => {
    expect(exampleSplit(['us', 'eu'])).toEqual({ us: 60, eu: 40 })
    for (let n = 1; n <= 8; n++) {
      const split = exampleSplit(Array.from({ length: n }, (_, i) => `r${i}`))
      expect(Object.values(split).reduce((sum, part) => sum + part, 0)).toBe(100)
    }
  })
})

describe('a table', () => {
  it('aligns its columns and leaves no blanks at the ends of lines', () => {
    expect(
      table(
        ['name', '>count'],
        [
          ['a', '1,000'],
          ['long name', '2'],
        ],
      ),
    ).toEqual(['name       count', 'a          1,000', 'long name      2'])
  })
})
