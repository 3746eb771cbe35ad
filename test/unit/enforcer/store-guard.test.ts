import { beforeEach, describe, expect, it } from 'vitest'
import { type GuardChange, StoreGuard } from '../../../services/enforcer/store-guard.ts'

let nowMs: number
let changes: GuardChange[]
let guard: StoreGuard

beforeEach(() => {
  nowMs = 0
  changes = []
  guard = new StoreGuard({
    clock: { monotonicMs: () => nowMs, wallMs: () => nowMs },
    onChange: (change) => changes.push(change),
  })
})

function enter(): number {
  const round = guard.enter()
  if (round === null) throw new Error('the guard is open')
  return round
}

function failOnce(): void {
  nowMs += 2
  guard.failed(enter())
}

function open(): void {
  for (let turn = 0; turn < 3; turn++) failOnce()
}

describe('StoreGuard', () => {
  it('lets every check through until three failures in a row', () => {
    failOnce()
    failOnce()
    guard.succeeded(enter())
    failOnce()
    failOnce()
    expect(guard.isOpen).toBe(false)
    failOnce()
    expect(guard.isOpen).toBe(true)
    expect(guard.enter()).toBeNull()
  })

  it('takes checks that fail together, or right after, for one failure', () => {
    const together = Array.from({ length: 100 }, enter)
    for (const round of together) guard.failed(round)
    for (let check = 0; check < 100; check++) guard.failed(enter())
    expect(guard.isOpen).toBe(false)
  })

  it('lets one check a pause try the store, and no second while it waits (B104)', () => {
    open()
    nowMs += 24
    expect(guard.enter()).toBeNull()
    nowMs += 1
    const probe = enter()
    nowMs += 10_000
    for (let check = 0; check < 5_000; check++) expect(guard.enter()).toBeNull()
    guard.failed(probe)
    nowMs += 49
    expect(guard.enter()).toBeNull()
    nowMs += 1
    enter()
  })

  it('doubles the pause up to a quarter of a second, and begins small after an outage', () => {
    const pauseMs = (): number => {
      const beganMs = nowMs
      let round = guard.enter()
      for (; round === null; round = guard.enter()) nowMs += 1
      guard.failed(round)
      return nowMs - beganMs
    }
    open()
    expect(Array.from({ length: 6 }, pauseMs)).toEqual([25, 50, 100, 200, 250, 250])
    nowMs += 250
    guard.succeeded(enter())
    open()
    expect(pauseMs()).toBe(25)
  })

  it('closes when the check that tried succeeds', () => {
    open()
    nowMs += 25
    guard.succeeded(enter())
    expect(guard.isOpen).toBe(false)
    failOnce()
    expect(guard.isOpen).toBe(false)
    expect(changes).toEqual(['opened', 'closed'])
  })

  it('is not closed by an answer that comes late', () => {
    const early = enter()
    open()
    guard.succeeded(early)
    expect(guard.isOpen).toBe(true)
  })

  it('is not opened again by a failure that comes late', () => {
    const early = Array.from({ length: 10 }, enter)
    open()
    nowMs += 25
    guard.succeeded(enter())
    for (const round of early) guard.failed(round)
    expect(guard.isOpen).toBe(false)
  })

  it('says once that it opens, that the outage lasts and that it closes, however long that takes', () => {
    open()
    for (let turn = 0; turn < 50; turn++) {
      nowMs += 250
      guard.failed(enter())
    }
    expect(guard.openMs).toBe(50 * 250)
    nowMs += 250
    guard.succeeded(enter())
    expect(guard.openMs).toBeNull()
    expect(changes).toEqual(['opened', 'lasting', 'closed'])
  })

  it.each([5_000, 60_000, 3_600_000])(
    'lets all through again with the first answer after an outage of %d ms, a quarter of a second late at most (B100)',
    (outageMs) => {
      open()
      const endMs = nowMs + outageMs
      for (; nowMs < endMs; nowMs += 25) {
        const round = guard.enter()
        if (round !== null) guard.failed(round)
      }
      const backMs = nowMs
      let round = guard.enter()
      for (; round === null; round = guard.enter()) nowMs += 1
      expect(nowMs - backMs).toBeLessThanOrEqual(250)
      guard.succeeded(round)
      for (let check = 0; check < 100; check++) expect(guard.enter()).not.toBeNull()
      expect(changes).toEqual(['opened', 'lasting', 'closed'])
    },
  )
})
