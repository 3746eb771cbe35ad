import { describe, expect, it } from 'vitest'
import { planeOf } from '../../../services/sync/plane.ts'
import { StockBook } from '../../../services/sync/stock-book.ts'
import { aPolicy } from '../../support/memory-plane.ts'

const DAY_MS = 86_400_000
const ID = '{04s}1.0:tenant=acme'
const policy = aPolicy({ algorithm: 'fixed_window', windowMs: DAY_MS })

function aBook(): StockBook {
  const book = new StockBook()
  book.beginSession(7)
  book.usePlane(planeOf([policy], 1, ['us-east-1']))
  book.seed(new Map([['1.0', [{ startMs: 0, endMs: DAY_MS, floor: 5 }]]]))
  return book
}

describe('what a daemon asks for of long windows', () => {
  it('is what runs low, once until the answer, and leaves the rest to the ledger', () => {
    const book = aBook()
    expect(book.notice([ID, '{04s}2.0:other'], 0)).toEqual(['{04s}2.0:other'])
    expect(book.ask(1, 0)?.request.asks).toMatchObject([{ counter: ID, startMs: 0 }])
    expect(book.ask(1, 0)).toBeNull()
  })

  it('is asked again by its name until it is answered, in another session too, and never after that', () => {
    const book = aBook()
    book.notice([ID], 0)
    const first = book.ask(1, 0)
    book.askFailed(0)
    book.beginSession(8)
    const again = book.ask(1, 1_000)
    expect(again?.request.question).toBe(first?.request.question)
    if (again === null) throw new Error('there is a question')
    book.take({ ...again, reply: { v: 1, windows: [], allotted: [] } }, 1_000)
    book.notice([ID], 1_000)
    expect(book.ask(1, 1_000)?.request.question).not.toBe(first?.request.question)
  })

  it('becomes rarer while answers do not come through', () => {
    const book = aBook()
    book.notice([ID], 0)
    let questions = 0
    for (let nowMs = 0; nowMs < 120_000; nowMs += 100) {
      if (book.ask(1, nowMs) === null) continue
      questions += 1
      book.askFailed(nowMs)
    }
    expect(questions).toBeLessThan(30)
  })

  it('is not added by an answer to a question of an earlier session', () => {
    const book = aBook()
    book.notice([ID], 0)
    const question = book.ask(1, 0)
    if (question === null) throw new Error('there is a question')
    book.beginSession(8)
    const given = { limitId: 1, usageEpoch: 0, startMs: 0, counter: ID, from: 0, to: 9 }
    const reply = { v: 1 as const, windows: [], allotted: [given] }
    expect(book.take({ ...question, reply }, 0).adds).toEqual([])
  })
})
