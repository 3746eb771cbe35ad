import { describe, expect, it } from 'vitest'
import { CheckObserver } from '../../../services/enforcer/check-observer.ts'
import type { Verdict } from '../../../services/enforcer/conclude.ts'
import { DECISIONS_KEPT_MAX, DecisionLog } from '../../../services/enforcer/decision-log.ts'
import type { Clock } from '../../../shared/runtime/clock.ts'

const DENIED: Verdict = {
  allowed: false,
  revision: 7,
  degraded: false,
  decided: [],
  watched: [],
  unlimited: [],
  unmatched: true,
  admittedAtUs: null,
}

const aCheck = (value = 'acme') => ({
  domain: 'api',
  descriptors: [{ entries: [{ key: 'tenant', value }] }],
  cost: 1,
})

function aLog(random?: () => number) {
  const time = { nowMs: 1_000 }
  const clock: Clock = { wallMs: () => time.nowMs, monotonicMs: () => time.nowMs }
  const log = new DecisionLog(clock, random)
  const observer = new CheckObserver(log, undefined)
  const decide = (value?: string): void => {
    const waiter = { resolve: () => {}, reject: () => {} }
    if (observer.looking === 0) return
    observer.observe(aCheck(value), waiter).resolve(DENIED)
  }
  return { log, observer, decide, time }
}

describe('the decision log', () => {
  it('asks nothing of a check until somebody looks, and after the time is over', () => {
    const { log, observer, decide, time } = aLog()
    expect(observer.looking).toBe(0)
    observer.keep(1, 10)
    expect(observer.looking).toBe(1)
    decide()
    time.nowMs += 10_000
    expect(log.read(0)).toMatchObject({ sample: 0, until: null })
    decide()
    expect(observer.looking).toBe(0)
    expect(log.read(0).decisions).toHaveLength(1)
    observer.keep(1, 10)
    observer.keep(0, 1)
    expect(observer.looking).toBe(0)
  })

  it('keeps the part that is asked for', () => {
    let next = 0
    const { log, observer, decide } = aLog(() => (next++ % 100) / 100)
    observer.keep(0.03, 60)
    for (let check = 0; check < 1_000; check++) decide()
    expect(log.read(0).decisions).toHaveLength(30)
  })

  it('is bounded: the newest stay, and a reader is told how many it missed', () => {
    const { log, observer, decide } = aLog()
    observer.keep(1, 60)
    for (let check = 0; check < DECISIONS_KEPT_MAX + 20; check++) decide(`t${check}`)
    const { decisions, next, missed } = log.read(5)
    expect([decisions.length, missed, next]).toEqual([500, 15, 520])
    expect(decisions[0]).toMatchObject({ seq: 20, descriptors: ['tenant=t20'] })
    expect(log.read(next)).toMatchObject({ decisions: [], missed: 0 })
    expect(log.read(10_000)).toMatchObject({ decisions: [], missed: 0, next: 520 })
  })

  it('cuts what callers made long', () => {
    const { log, observer, decide } = aLog()
    observer.keep(1, 60)
    decide('x'.repeat(1_000))
    expect(log.read(0).decisions[0]?.descriptors[0]).toHaveLength(256)
  })
})
