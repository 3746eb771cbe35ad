import { beforeEach, describe, expect, it } from 'vitest'
import { StoreGuard } from '../../../services/enforcer/store-guard.ts'

let nowMs: number
let flips: boolean[]
let guard: StoreGuard

beforeEach(() => {
  nowMs = 0
  flips = []
  guard = new StoreGuard({
    clock: { monotonicMs: () => nowMs, wallMs: () => nowMs },
    onFlip: (isOpen) => flips.push(isOpen),
  })
})

function enter(): number {
  const round = guard.enter()
  if (round === null) throw new Error('the guard is open')
  return round
}

function open(): void {
  for (let turn = 0; turn < 3; turn++) guard.failed(enter())
}

describe('StoreGuard', () => {
  it('lets every check through until three failures in a row', () => {
    guard.failed(enter())
    guard.failed(enter())
    guard.succeeded(enter())
    guard.failed(enter())
    guard.failed(enter())
    expect(guard.isOpen).toBe(false)
    guard.failed(enter())
    expect(guard.isOpen).toBe(true)
    expect(guard.enter()).toBeNull()
  })

  it('takes checks that fail together for one failure', () => {
    const together = Array.from({ length: 100 }, enter)
    for (const round of together) guard.failed(round)
    expect(guard.isOpen).toBe(false)
  })

  it('lets one check a pause try the store, and no second while it waits', () => {
    open()
    nowMs = 250
    const probe = enter()
    nowMs = 10_000
    expect(guard.enter()).toBeNull()
    guard.failed(probe)
    nowMs += 249
    expect(guard.enter()).toBeNull()
    nowMs += 1
    enter()
  })

  it('closes when the check that tried succeeds', () => {
    open()
    nowMs = 250
    guard.succeeded(enter())
    expect(guard.isOpen).toBe(false)
    guard.failed(enter())
    expect(guard.isOpen).toBe(false)
    expect(flips).toEqual([true, false])
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
    nowMs = 250
    guard.succeeded(enter())
    for (const round of early) guard.failed(round)
    expect(guard.isOpen).toBe(false)
  })

  it('says that it opens and closes once each, however long the outage', () => {
    open()
    for (let turn = 0; turn < 50; turn++) {
      nowMs += 250
      guard.failed(enter())
    }
    nowMs += 250
    guard.succeeded(enter())
    expect(flips).toEqual([true, false])
  })
})
