import { describe, expect, it } from 'vitest'
import { EventQueue } from '../../simulation/sim/world/event-queue.ts'
import { HostClock } from '../../simulation/sim/world/host-clock.ts'
import { GOOD_LINK, Network } from '../../simulation/sim/world/network.ts'
import { Prng } from '../../simulation/sim/world/prng.ts'

describe('the event queue', () => {
  it('runs actions in the order of their times, and those of one instant as they were added', () => {
    const prng = new Prng(7)
    const queue = new EventQueue()
    const ran: number[] = []
    const times = Array.from({ length: 5_000 }, () => prng.below(500))
    times.forEach((time, index) => {
      queue.at(time, () => ran.push(time * 10_000 + index))
    })
    queue.runUntil(1_000)
    expect(ran).toEqual([...ran].sort((one, other) => one - other))
    expect(ran).toHaveLength(times.length)
  })

  it('runs what an action adds for the same instant, and nothing later than asked', () => {
    const queue = new EventQueue()
    const ran: string[] = []
    queue.at(5, () => queue.after(0, () => ran.push('now')))
    queue.at(7, () => ran.push('later'))
    queue.runUntil(6)
    expect(ran).toEqual(['now'])
    expect(queue.nowUs).toBe(6)
  })
})

describe('random streams', () => {
  it('repeat for a seed, differ between seeds, and do not disturb each other', () => {
    const draw = (prng: Prng): readonly number[] => Array.from({ length: 5 }, () => prng.next())
    expect(draw(new Prng(3))).toEqual(draw(new Prng(3)))
    expect(draw(new Prng(3))).not.toEqual(draw(new Prng(4)))
    const parent = new Prng(3)
    const before = draw(parent.fork('a'))
    draw(parent)
    expect(draw(parent.fork('a'))).toEqual(before)
    expect(draw(parent.fork('b'))).not.toEqual(before)
  })

  it('give Poisson counts with the mean asked for, small and large', () => {
    const prng = new Prng(11)
    for (const mean of [0.3, 9, 200]) {
      const counts = Array.from({ length: 20_000 }, () => prng.poisson(mean))
      const average = counts.reduce((sum, count) => sum + count, 0) / counts.length
      expect(Math.abs(average - mean)).toBeLessThan(4 * Math.sqrt(mean / counts.length))
    }
  })
})

describe('the network', () => {
  function count(link: Partial<typeof GOOD_LINK>, arrange?: (network: Network) => void): number {
    const queue = new EventQueue()
    const network = new Network(queue, new Prng(1), 3, { ...GOOD_LINK, ...link })
    arrange?.(network)
    let arrived = 0
    for (let message = 0; message < 1_000; message++) network.send(0, 1, () => arrived++)
    queue.runUntil(1e9)
    return arrived
  }

  it('delivers each message once where nothing is wrong', () => {
    expect(count({})).toBe(1_000)
  })

  it('loses and repeats as often as told', () => {
    expect(count({ loss: 0.3 })).toBeGreaterThan(640)
    expect(count({ loss: 0.3 })).toBeLessThan(760)
    expect(count({ duplicate: 0.2 })).toBeGreaterThan(1_140)
  })

  it('cuts one direction only, and counts reasons for a cut', () => {
    expect(count({}, (network) => network.changeCut(0, 1, 1))).toBe(0)
    expect(count({}, (network) => network.changeCut(1, 0, 1))).toBe(1_000)
    const twice = (network: Network): void => {
      network.changeCut(0, 1, 1)
      network.changeCut(0, 1, 1)
      network.changeCut(0, 1, -1)
    }
    expect(count({}, twice)).toBe(0)
  })

  it('names the parts that are connected in both directions', () => {
    const network = new Network(new EventQueue(), new Prng(1), 4, GOOD_LINK)
    for (const [one, other] of [
      [0, 2],
      [0, 3],
      [1, 2],
      [1, 3],
    ] as const) {
      network.changeCut(one, other, 1)
    }
    expect(network.components(4)).toEqual([0, 0, 2, 2])
  })
})

describe('a host clock', () => {
  it('runs at its rate, and its times can be turned back into real ones', () => {
    const clock = new HostClock(1.001, 500)
    expect(clock.readUs(1_000_000)).toBeCloseTo(1_001_500, 6)
    clock.stepBy(1_000_000, -7_000)
    clock.runAt(2_000_000, 0.999)
    expect(clock.realUs(clock.readUs(3_000_000))).toBeCloseTo(3_000_000, 3)
    expect(clock.readUs(1_000_000 + 1_000_000)).toBeCloseTo(1_001_500 - 7_000 + 1_001_000, 3)
  })
})
