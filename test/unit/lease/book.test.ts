import { beforeEach, describe, expect, it } from 'vitest'
import { LeaseBook } from '../../../services/enforcer/lease-book.ts'
import { LEASE_MS } from '../../../shared/core/lease.ts'
import type { GroupCheck, LeaseAsk, LeaseGrant } from '../../../shared/core/ports.ts'
import { QuotaError } from '../../../shared/errors.ts'
import { aRegionLimit } from '../../support/region-policy.ts'

const limit = aRegionLimit({ capacity: 100_000 })
const check = (counter = 'a', cost = 1): GroupCheck => ({
  group: 1,
  cost,
  targets: [{ limit, counter }],
})

interface Pending {
  readonly ask: LeaseAsk
  answer(grant: Partial<LeaseGrant> | null): Promise<void>
  fail(): Promise<void>
}

let nowMs: number
let asked: Pending[]
let returned: { id: string; tokens: number }[]
let book: LeaseBook

beforeEach(() => {
  nowMs = 1_000
  asked = []
  returned = []
  book = new LeaseBook({
    owner: 'me',
    clock: { monotonicMs: () => nowMs, wallMs: () => nowMs },
    store: {
      grant: (ask) =>
        new Promise((resolve, reject) => {
          const given = { tokens: ask.tokens, atUs: 0, lifeMs: LEASE_MS, remaining: 5, resetMs: 9 }
          asked.push({
            ask,
            async answer(grant) {
              resolve(grant === null ? null : { ...given, ...grant })
              await settle()
            },
            async fail() {
              reject(new QuotaError('QUOTA_STORE_UNAVAILABLE', 'gone'))
              await settle()
            },
          })
        }),
      giveUp: async ({ id, tokens }) => void returned.push({ id, tokens }),
    },
  })
})

async function settle(): Promise<void> {
  for (let turn = 0; turn < 5; turn++) await Promise.resolve()
}

function makeHot(counter = 'a'): void {
  for (let count = 0; count < 60; count++) book.watch(check(counter), 1)
}

function last(): Pending {
  const pending = asked.at(-1)
  if (pending === undefined) throw new Error('nothing was asked')
  return pending
}

function takenUntilEmpty(max = 10_000): number {
  let taken = 0
  while (taken < max && book.take(check(), 1) !== null) taken++
  return taken
}

describe('LeaseBook', () => {
  it('leases only what is asked for often', () => {
    for (let count = 0; count < 20; count++) book.watch(check(), 1)
    expect(asked).toEqual([])
    makeHot()
    expect(asked).toHaveLength(1)
  })

  it('B056: asks for one block at a time, however many checks miss it', async () => {
    makeHot()
    for (let count = 0; count < 500; count++) expect(book.take(check(), 1)).toBeNull()
    expect(asked).toHaveLength(1)
    await last().answer({ tokens: 100 })
    expect(takenUntilEmpty()).toBe(100)
    // One more was asked for at a fifth left, and none beside it.
    expect(asked).toHaveLength(2)
  })

  it('B056: a small balance denies nothing: what it does not cover goes to Redis', async () => {
    makeHot()
    await last().answer({ tokens: 100 })
    expect(book.take(check('a', 97), 1)).not.toBeNull()
    expect(book.take(check('a', 50), 1)).toBeNull()
    // And what was left is there when Redis decides.
    expect(returned[0]).toEqual({ id: asked[0]?.ask.id, tokens: 3 })
  })

  it('recalls a block on its way for a dear check of what Redis had little left of, and spends none of it', async () => {
    makeHot()
    await last().answer({ tokens: 100, remaining: 100 })
    // At a fifth left the next one is asked for.
    expect(book.take(check('a', 90), 1)).not.toBeNull()
    const { ask } = last()
    expect(book.take(check('a', 150), 1)).toBeNull()
    expect(book.take(check('a', 150), 1)).toBeNull()
    expect(returned).toEqual([
      { id: asked[0]?.ask.id, tokens: 10 },
      { id: ask.id, tokens: ask.tokens },
    ])
    await last().answer({ tokens: 30 })
    // Redis may not have known it yet when it was recalled.
    expect(returned[2]).toEqual({ id: ask.id, tokens: 30 })
    expect(book.take(check('a', 1), 1)).toBeNull()
    expect(book.counts.granted - book.counts.returned).toBe(90)
  })

  it('recalls none for a cheap check, nor of what there is plenty of', async () => {
    makeHot()
    await last().answer({ tokens: 100, remaining: 100_000 })
    expect(book.take(check('a', 90), 1)).not.toBeNull()
    expect(book.take(check('a', 150), 1)).toBeNull()
    await last().answer({ tokens: 100, remaining: 0 })
    expect(takenUntilEmpty()).toBe(100)
    for (let count = 0; count < 20; count++) expect(book.take(check(), 1)).toBeNull()
    await last().answer({ tokens: 40 })
    expect(takenUntilEmpty()).toBe(40)
  })

  it('asks for no block before a check that goes to Redis, but at the next tick', async () => {
    makeHot()
    await last().answer({ tokens: 100 })
    expect(book.take(check('a', 101), 1)).toBeNull()
    expect(book.take(check('a', 1), 1)).toBeNull()
    expect(asked).toHaveLength(1)
    await book.tick()
    expect(asked).toHaveLength(2)
  })

  it('spends no block past its life, counted from its own sending, however late the answer', async () => {
    makeHot()
    nowMs += LEASE_MS
    await last().answer({ tokens: 100 })
    expect(book.take(check(), 1)).toBeNull()
    nowMs += 1_000
    makeHot('b')
    await last().answer({ tokens: 100 })
    nowMs += LEASE_MS - 1
    expect(book.take(check('b'), 1)).not.toBeNull()
    nowMs += 0.9
    expect(book.take(check('b'), 1)).toBeNull()
  })

  it('gives back once what an idle counter did not use', async () => {
    makeHot()
    await last().answer({ tokens: 100 })
    book.take(check('a', 30), 1)
    for (let tick = 0; tick < 4; tick++) await book.tick()
    expect(returned).toEqual([{ id: last().ask.id, tokens: 70 }])
    expect(book.size).toBe(0)
  })

  it('gives back what is left of a block shortly before its end', async () => {
    makeHot()
    await last().answer({ tokens: 100 })
    book.take(check('a', 30), 1)
    nowMs += LEASE_MS - 25
    await book.tick()
    expect(returned).toMatchObject([{ tokens: 70 }])
    expect(book.take(check(), 1)).toBeNull()
  })

  it('gives everything back when policies change, and takes nothing from old blocks', async () => {
    makeHot()
    await last().answer({ tokens: 100 })
    expect(book.take(check(), 2)).toBeNull()
    await settle()
    expect(returned).toMatchObject([{ tokens: 100 }])
    expect(book.take(check(), 1)).toBeNull()
  })

  it('B052: gives everything back when it closes, blocks that are on their way too', async () => {
    makeHot('a')
    await last().answer({ tokens: 100 })
    makeHot('b')
    const closed = book.close()
    await last().answer({ tokens: 40 })
    await closed
    expect(returned.map(({ tokens }) => tokens)).toEqual([100, 40])
    makeHot('c')
    expect(asked).toHaveLength(2)
  })

  it('asks again only after a pause where nothing can be leased, or Redis is away', async () => {
    makeHot()
    await last().answer({ tokens: 0 })
    book.take(check(), 1)
    expect(asked).toHaveLength(1)
    // It is still asked for, so that it is not idle.
    for (let tick = 0; tick < 5; tick++) {
      book.take(check(), 1)
      await book.tick()
    }
    expect(asked).toHaveLength(1)
    nowMs += 300
    book.take(check(), 1)
    await book.tick()
    expect(asked).toHaveLength(2)
    await last().fail()
    book.take(check(), 1)
    await book.tick()
    expect(asked).toHaveLength(2)
  })

  it('B088: holds a bounded number of counters', () => {
    for (let key = 0; key < 3_000; key++) makeHot(`key-${key}`)
    expect(book.size).toBeLessThanOrEqual(1_024)
  })

  it('B073: takes from no block of another policy, though subject and limit are the same', async () => {
    makeHot('1.0:tenant=acme')
    await last().answer({ tokens: 3 })
    expect(book.take(check('2.0:tenant=acme'), 1)).toBeNull()
    const own = Array.from({ length: 5 }, () => book.take(check('1.0:tenant=acme'), 1))
    expect(own.filter((answer) => answer !== null)).toHaveLength(3)
  })

  it('takes from all limits of a check or from none', async () => {
    makeHot('a')
    await last().answer({ tokens: 100, remaining: 1_000 })
    const both = { group: 1, cost: 1, targets: [...check('a').targets, ...check('b').targets] }
    expect(book.take(both, 1)).toBeNull()
    expect(takenUntilEmpty()).toBe(100)
  })

  it('leaves Redis to decide with all that is left where it may lack one of several limits', async () => {
    makeHot('a')
    await last().answer({ tokens: 100, remaining: 100 })
    const both = { group: 1, cost: 1, targets: [...check('a').targets, ...check('b').targets] }
    expect(book.take(both, 1)).toBeNull()
    expect(returned).toEqual([{ id: last().ask.id, tokens: 100 }])
  })

  it('leases nothing of a limit that says so', () => {
    const off = { ...limit, leases: 'off' } as const
    for (let count = 0; count < 60; count++) {
      book.watch({ group: 1, cost: 1, targets: [{ limit: off, counter: 'a' }] }, 1)
    }
    expect(asked).toEqual([])
  })
})
