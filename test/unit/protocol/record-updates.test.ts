import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { counterId } from '../../../shared/core/counter-id.ts'
import type { RecordRow, RegionRecord } from '../../../shared/core/ledger/types.ts'
import { type RecordUpdate, WHOLE_EVERY_MS } from '../../../shared/protocol/record.ts'
import { decodeUpdate, encodeUpdate } from '../../../shared/protocol/record-body.ts'
import { applyUpdate, type HeldRecord, lacksUsage } from '../../../shared/protocol/record-reader.ts'
import { SinceKeeper } from '../../../shared/protocol/record-since.ts'
import { RecordWriter } from '../../../shared/protocol/record-writer.ts'
import { aRecord, NOTHING_KNOWN, recordRows } from '../../support/records.ts'

const KEYS = 6

const key = (index: number): string =>
  counterId({ group: index % 16, limitId: 7, usageEpoch: 0, name: `tenant=k${index}` })

const few = fc.nat({ max: 3 })
const loans = fc.dictionary(fc.constantFrom('eu-west-1', 'ap-south-1'), fc.tuple(few, few, few), {
  noNullPrototype: true,
})
const row: fc.Arbitrary<Omit<RecordRow, 'id'>> = fc.record({
  share: few,
  demand: few,
  hungry: fc.boolean(),
  admitted: few,
  denied: few,
  returned: few,
  quarantined: few,
  lent: loans,
  gaveBack: fc.dictionary(fc.constantFrom('eu-west-1'), fc.tuple(few, few), {
    noNullPrototype: true,
  }),
})

/** What happens: the sender's rows change, it publishes, messages arrive or not, the listener answers, restarts. */
const event = fc.oneof(
  { weight: 4, arbitrary: fc.record({ kind: fc.constant('set' as const), at: fc.nat(), row }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('close' as const), at: fc.nat() }) },
  { weight: 5, arbitrary: fc.record({ kind: fc.constant('publish' as const) }) },
  { weight: 6, arbitrary: fc.record({ kind: fc.constant('deliver' as const), at: fc.nat() }) },
  { weight: 3, arbitrary: fc.record({ kind: fc.constant('answer' as const) }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('forget' as const) }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('new fence' as const) }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('wait' as const) }) },
)
type Event = typeof event extends fc.Arbitrary<infer T> ? T : never

describe('what a listener makes of updates', () => {
  it('is exactly some published record, each newer than the last, under any loss, repetition and reordering (B140, B155)', () => {
    fc.assert(
      fc.property(fc.array(event, { minLength: 10, maxLength: 120 }), (events) => {
        const link = new Link()
        for (const one of events) link.happen(one)
        expect(link.misread).toEqual([])
      }),
      { numRuns: 200 },
    )
  })

  it('is the newest record after at most a question and an answer, whatever was lost before (B155)', () => {
    fc.assert(
      fc.property(fc.array(event, { maxLength: 60 }), (events) => {
        const link = new Link()
        for (const one of events) link.happen(one)
        link.publishAndDeliver()
        link.publishAndDeliver()
        expect(link.heldSeq).toBe(link.publishedSeq)
      }),
      { numRuns: 100 },
    )
  })

  it('keeps the very rows that did not change', () => {
    const writer = new RecordWriter()
    const rows = recordRows(3)
    const first = applied(null, writer.next(aRecord({ seq: 1, rows }), NOTHING_KNOWN))
    const changed = rows.map((one, index) => (index === 1 ? { ...one, demand: 9 } : one))
    const next = applied(
      first,
      writer.next(aRecord({ seq: 2, rows: changed }), { rows: 1, usage: 1 }),
    )
    expect(next.record.rows[0]).toBe(first.record.rows[0])
    expect(next.record.rows[1]).toEqual({ ...rows[1], demand: 9 })
    expect(next.record.rows[2]).toBe(first.record.rows[2])
  })

  it('has only the parts of rows that changed, and no names that are known', () => {
    const writer = new RecordWriter()
    const rows = recordRows(1_000)
    const whole = encodeUpdate(writer.next(aRecord({ seq: 1, rows }), NOTHING_KNOWN))
    const busy = rows.map((one) => ({ ...one, demand: one.demand + 50_000 }))
    const since = { rows: 1, usage: 1 }
    const update = encodeUpdate(writer.next(aRecord({ seq: 2, rows: busy }), since))
    const same = encodeUpdate(writer.next(aRecord({ seq: 3, rows: busy }), { rows: 2, usage: 2 }))
    expect(whole.byteLength / 1_000).toBeLessThan(60)
    expect(update.byteLength / 1_000).toBeLessThan(6)
    expect(same.byteLength).toBeLessThan(100)
  })

  it('lacks usage when it missed a record that told of it, and says so', () => {
    const writer = new RecordWriter()
    const first = applied(null, writer.next(aRecord({ seq: 1 }), NOTHING_KNOWN))
    const periodic = writer.next(aRecord({ seq: 9 }), { rows: -1, usage: 5 })
    expect(lacksUsage(first, periodic)).toBe(true)
    expect(lacksUsage(null, periodic)).toBe(true)
    const held = applied(first, writer.next(aRecord({ seq: 10 }), NOTHING_KNOWN))
    const later = writer.next(aRecord({ seq: 11 }), { rows: -1, usage: 5 })
    expect(lacksUsage(held, later)).toBe(false)
  })
})

describe('what the next record rests on', () => {
  const mark = (seq: number, fence = 1) => ({ incarnation: 1, fence, seq })
  const heard = (from: string, acked: number, peerFence = 1) => ({
    from,
    mark: mark(1, peerFence),
    acks: { 'us-east-1': mark(acked) },
  })

  it('is the newest that all peers in reach have, once each was told everything', () => {
    const keeper = new SinceKeeper()
    keeper.hear(heard('a', 0), 0)
    keeper.hear(heard('b', 0), 0)
    expect(keeper.next('us-east-1', mark(1), 0)).toEqual(NOTHING_KNOWN)
    keeper.hear(heard('a', 1), 100)
    expect(keeper.next('us-east-1', mark(2), 100)).toEqual(NOTHING_KNOWN)
    keeper.hear(heard('a', 2), 200)
    keeper.hear(heard('b', 1), 200)
    expect(keeper.next('us-east-1', mark(3), 200)).toEqual({ rows: 1, usage: 1 })
  })

  it('is nothing for the daemon that took over at a peer, which heard none of it', () => {
    const keeper = new SinceKeeper()
    keeper.hear(heard('a', 0), 0)
    keeper.next('us-east-1', mark(1), 0)
    keeper.hear(heard('a', 1), 100)
    expect(keeper.next('us-east-1', mark(2), 100)).toEqual({ rows: 1, usage: 1 })
    keeper.hear(heard('a', 2, 2), 200)
    expect(keeper.next('us-east-1', mark(3), 200)).toEqual(NOTHING_KNOWN)
    keeper.hear(heard('a', 3, 2), 300)
    expect(keeper.next('us-east-1', mark(4), 300)).toEqual({ rows: 3, usage: 3 })
  })

  it('does not wait for peers that are silent or deaf', () => {
    const keeper = new SinceKeeper()
    for (const peer of ['silent', 'deaf', 'well']) keeper.hear(heard(peer, 0), 0)
    for (let seq = 1; seq <= 12; seq++) {
      keeper.next('us-east-1', mark(seq), seq * 1_000)
      keeper.hear(heard('deaf', 0), seq * 1_000 + 500)
      keeper.hear(heard('well', seq), seq * 1_000 + 500)
    }
    expect(keeper.next('us-east-1', mark(13), 13_000)).toEqual({ rows: 12, usage: 12 })
  })

  it('is nothing every quarter of a minute, and when somebody asked, at most once a second', () => {
    const keeper = new SinceKeeper()
    const wholes: number[] = []
    for (let seq = 1; seq <= 400; seq++) {
      const nowMs = seq * 100
      if (seq > 300 && seq < 330) keeper.ask()
      if (keeper.next('us-east-1', mark(seq), nowMs).rows < 0) wholes.push(nowMs)
      keeper.hear(heard('a', seq), nowMs + 50)
    }
    const [, second = 0, third = 0] = wholes.filter((ms) => ms > 1_000)
    expect(third - second).toBeLessThanOrEqual(WHOLE_EVERY_MS)
    const asked = wholes.filter((ms) => ms > 30_000 && ms < 33_500)
    expect(asked).toEqual([30_100, 31_100, 32_100, 33_100])
  })
})

/** A sender and a listener, and all messages that were ever on their way. */
class Link {
  readonly misread: unknown[] = []
  readonly #rows = new Map<string, RecordRow>()
  readonly #writer = new RecordWriter()
  readonly #keeper = new SinceKeeper()
  readonly #published = new Map<string, RegionRecord>()
  readonly #sent: Uint8Array[] = []
  readonly #updates: RecordUpdate[] = []
  #held: HeldRecord | null = null
  #lastMark = ''
  #listenerFence = 1
  #nowMs = 0
  #fence = 1
  #seq = 0

  get heldSeq(): number {
    return this.#held?.record.mark.seq ?? -1
  }

  get publishedSeq(): number {
    return this.#seq
  }

  happen(one: Event): void {
    this.#nowMs += 100
    switch (one.kind) {
      case 'set':
        this.#rows.set(key(one.at % KEYS), { ...one.row, id: key(one.at % KEYS) })
        break
      case 'close':
        this.#rows.delete(key(one.at % KEYS))
        break
      case 'publish':
        this.#publish()
        break
      case 'deliver':
        if (this.#sent.length > 0) this.#deliver(one.at % this.#sent.length)
        break
      case 'answer':
        this.#answer()
        break
      case 'forget':
        this.#held = null
        this.#listenerFence++
        this.#lastMark = ''
        break
      case 'new fence':
        this.#fence++
        break
      case 'wait':
        this.#nowMs += 6_000
        break
    }
  }

  publishAndDeliver(): void {
    this.#nowMs += 1_000
    this.#publish()
    this.#deliver(this.#sent.length - 1)
  }

  #publish(): void {
    const mark = { incarnation: 1, fence: this.#fence, seq: ++this.#seq }
    const record = aRecord({ mark, rows: [...this.#rows.values()] })
    const update = this.#writer.next(record, this.#keeper.next('us-east-1', mark, this.#nowMs))
    this.#published.set(JSON.stringify(mark), record)
    this.#updates.push(update)
    this.#sent.push(encodeUpdate(update))
  }

  #deliver(at: number): void {
    const update = this.#updates[at]
    const bytes = this.#sent[at]
    if (update === undefined || bytes === undefined) return
    const { from, mark } = update.header
    const arrived = decodeUpdate({ from, mark, since: update.since }, bytes)
    const result = applyUpdate(this.#held, arrived)
    if (result.kind === 'gap') this.#keeper.ask()
    if (result.kind !== 'record') return
    this.#held = result.held
    this.#check(result.held.record)
  }

  #check(record: RegionRecord): void {
    const { fence, seq } = record.mark
    const mark = `${String(fence).padStart(6, '0')}.${String(seq).padStart(6, '0')}`
    if (mark <= this.#lastMark) this.misread.push({ mark, after: this.#lastMark })
    this.#lastMark = mark
    const truth = this.#published.get(JSON.stringify(record.mark))
    if (truth === undefined || !isSame(truth, record)) this.misread.push({ truth, record })
  }

  /** The listener's own record, which acknowledges what it holds. */
  #answer(): void {
    const acks = this.#held === null ? {} : { 'us-east-1': this.#held.record.mark }
    const mark = { incarnation: 1, fence: this.#listenerFence, seq: this.#nowMs }
    this.#keeper.hear({ from: 'eu-west-1', mark, acks }, this.#nowMs)
  }
}

/** The order of rows means nothing. */
function isSame(one: RegionRecord, other: RegionRecord): boolean {
  const sorted = ({ rows, ...rest }: RegionRecord) =>
    JSON.stringify([
      rest,
      [...rows].sort((a, b) => (a.id < b.id ? -1 : 1)).map((row) => Object.entries(row).sort()),
    ])
  return sorted(one) === sorted(other)
}

function applied(held: HeldRecord | null, update: RecordUpdate): HeldRecord {
  const result = applyUpdate(held, update)
  if (result.kind !== 'record') throw new Error(result.kind)
  return result.held
}
