import { describe, expect, it } from 'vitest'
import { ClockWatch } from '../../../services/sync/clock-watch.ts'

const jumps = (offsets: readonly number[]): readonly number[] => {
  const watch = new ClockWatch(50)
  return offsets.map((offset) => watch.watch(offset)).filter((moved) => moved !== 0)
}
const steady = (offset: number, count: number) => Array.from({ length: count }, () => offset)

describe('the watch on the clock of Redis', () => {
  it('says a step forward at once', () => {
    expect(jumps([...steady(1_000, 3), 1_100])).toEqual([100])
  })

  it('says a step back once it has been found again and again', () => {
    expect(jumps([...steady(1_000, 8), ...steady(900, 8), ...steady(900, 30)])).toEqual([-100])
  })

  it('says nothing of replies that came late', () => {
    expect(jumps([...steady(1_000, 5), 700, 400, ...steady(1_000, 5), 800, 990])).toEqual([])
  })

  it('says nothing of clocks that drift apart slowly', () => {
    expect(jumps(Array.from({ length: 1_000 }, (_, i) => 1_000 - i))).toEqual([])
  })
})
