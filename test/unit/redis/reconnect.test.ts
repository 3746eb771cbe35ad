import { expect, it } from 'vitest'
import { reconnectDelayMs } from '../../../shared/redis/client.ts'

/** Instants within ten seconds at which one client tries to connect to a Redis that is not there. */
function attempts(): readonly number[] {
  const instants: number[] = []
  let nowMs = 0
  for (let attempt = 1; nowMs < 10_000; attempt++) {
    instants.push(nowMs)
    nowMs += reconnectDelayMs(attempt)
  }
  return instants
}

it('enforcers of a Redis that restarts try it less and less often, and not in step (B098)', () => {
  const all = Array.from({ length: 50 }, attempts)
  for (const instants of all) {
    expect(instants.length).toBeLessThan(30)
    const late = instants.filter((atMs) => atMs >= 5_000)
    expect(late.length).toBeLessThanOrEqual(11)
  }
  // In no tenth of a second do half of them come at once, once they have drifted apart.
  const tenths = new Map<number, number>()
  for (const atMs of all.flat().filter((one) => one >= 2_000)) {
    const tenth = Math.floor(atMs / 100)
    tenths.set(tenth, (tenths.get(tenth) ?? 0) + 1)
  }
  expect(Math.max(...tenths.values())).toBeLessThan(50 / 2)
})
