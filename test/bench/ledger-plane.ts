/** Many regions with many hot keys, each a ledger over a store that answers at once, joined by what records weigh. */
import { urgentSpacingMs } from '../../services/sync/region-memory.ts'
import { splitBase } from '../../shared/core/base-split.ts'
import { counterId } from '../../shared/core/counter-id.ts'
import type { CounterId } from '../../shared/core/descriptor.ts'
import { TICK_MS } from '../../shared/core/ledger/constants.ts'
import { buildRecord } from '../../shared/core/ledger/record.ts'
import { createLedger, type LedgerState } from '../../shared/core/ledger/state.ts'
import { step } from '../../shared/core/ledger/step.ts'
import type {
  LedgerEffect,
  LedgerEvent,
  LedgerLimit,
  Sample,
} from '../../shared/core/ledger/types.ts'
import { shareTokens } from '../../shared/core/units.ts'
import { RecordAssembly } from '../../shared/protocol/record-assembly.ts'
import { decodeUpdate } from '../../shared/protocol/record-body.ts'
import { decodeChunk, encodeRecord } from '../../shared/protocol/record-frame.ts'
import { applyUpdate, type HeldRecord } from '../../shared/protocol/record-reader.ts'
import { SinceKeeper } from '../../shared/protocol/record-since.ts'
import { RecordWriter } from '../../shared/protocol/record-writer.ts'
import { Prng } from '../simulation/sim/world/prng.ts'

const CAPACITY = 1_000

/** One way between regions; the same for all. */
const DELAY_MS = 60
const SLICE_MS = 20
const MEASURE_MS = 250

/** How a key's demand is spread: one region has most of it, or all have more than there is. */
export type Load = 'skew' | 'overload'

export interface PlaneOptions {
  readonly regions: number
  readonly hotKeys: number
  readonly load: Load
}

/** Reading the processor's time takes as long as hearing a small record, so one run in so many is timed. */
const TIMED_EVERY = 16

/** What one region cost. */
export class Costs {
  bytes = 0
  messages = 0
  wholes = 0
  readonly ms = { measured: 0, record: 0, tick: 0, send: 0, wire: 0 }
  readonly runs = { measured: 0, record: 0, tick: 0, send: 0, wire: 0 }

  time<Result>(what: keyof Costs['ms'], run: () => Result): Result {
    const isTimed = this.runs[what] % TIMED_EVERY === 0
    this.runs[what] += 1
    if (!isTimed) return run()
    const start = process.cpuUsage()
    const result = run()
    const { user, system } = process.cpuUsage(start)
    this.ms[what] += ((user + system) / 1_000) * TIMED_EVERY
    return result
  }
}

interface Place {
  readonly name: string
  readonly writer: RecordWriter
  readonly keeper: SinceKeeper
  readonly held: Map<string, HeldRecord>
  readonly counts: Map<CounterId, { admitted: number; denied: number }>
  readonly shares: Map<CounterId, number>
  readonly levels: Map<CounterId, number>
  state: LedgerState
  isUrgent: boolean
  sentMs: number
  tickMs: number
  measureMs: number
}

interface Message {
  readonly atMs: number
  readonly payloads: readonly Uint8Array[]
  readonly from: Place
}

export class LedgerPlane {
  nowMs = 1_000_000
  costs = new Costs()
  readonly #places: readonly Place[]
  readonly #keys: readonly CounterId[]
  readonly #limit: LedgerLimit
  readonly #load: Load
  readonly #prng = new Prng(1)
  #messages: Message[] = []

  constructor({ regions, hotKeys, load }: PlaneOptions) {
    const names = Array.from({ length: regions }, (_, index) => `region-${index}`)
    this.#load = load
    this.#limit = limitOf(names)
    this.#keys = Array.from({ length: hotKeys }, (_, index) =>
      counterId({
        group: index % 16,
        limitId: 1,
        usageEpoch: 0,
        name: `tenant=customer-${100_000 + index}`,
      }),
    )
    this.#places = names.map((name, index) =>
      aPlace(name, this.nowMs + (index * TICK_MS) / regions),
    )
    for (const place of this.#places) this.#start(place, names)
  }

  run(forMs: number): void {
    for (const endMs = this.nowMs + forMs; this.nowMs < endMs; this.nowMs += SLICE_MS) {
      this.#deliver()
      for (const place of this.#places) this.#turn(place)
    }
  }

  /** Keys that are tracked, all regions together. */
  get tracked(): number {
    return this.#places.reduce((sum, place) => sum + place.state.keys.size, 0)
  }

  #start(place: Place, members: readonly string[]): void {
    this.#feed(place, {
      kind: 'started',
      continuity: 'first',
      incarnation: 1,
      fence: 1,
      firstSeq: 1,
      pairs: {},
      rows: [],
      storeOffsetMs: 0,
      bootedAtStoreMs: 0,
    })
    this.#feed(place, {
      kind: 'limits',
      policyRevision: 1,
      limits: new Map([[1, this.#limit]]),
      members,
      formerMembers: [],
      leastIncarnations: {},
    })
    const none = { kind: 'measured', storeOffsetMs: 0, samples: [], missing: [] } as const
    this.#feed(place, { ...none, noticed: this.#keys })
  }

  #turn(place: Place): void {
    if (this.nowMs >= place.measureMs) this.#measure(place)
    if (this.nowMs >= place.tickMs) {
      place.tickMs += TICK_MS
      this.costs.time('tick', () => this.#feed(place, { kind: 'tick' }))
      this.#send(place)
    } else if (place.isUrgent && this.nowMs - place.sentMs >= urgentSpacingMs(place.state))
      this.#send(place)
  }

  #measure(place: Place): void {
    const seconds = (this.nowMs - place.measureMs + MEASURE_MS) / 1_000
    place.measureMs = this.nowMs + MEASURE_MS
    const samples = this.#keys.map((id, index) => this.#sample(place, id, index, seconds))
    this.costs.time('measured', () =>
      this.#feed(place, { kind: 'measured', storeOffsetMs: 0, samples, noticed: [], missing: [] }),
    )
  }

  #sample(place: Place, id: CounterId, index: number, seconds: number): Sample {
    const mean = this.#demand(place, index) * seconds
    const noise = (this.#prng.next() + this.#prng.next() + this.#prng.next() - 1.5) * 2
    const wanted = Math.max(0, Math.round(mean + noise * Math.sqrt(mean)))
    const share = place.shares.get(id) ?? this.#limit.base[place.name] ?? 0
    const tokens = shareTokens(CAPACITY, share)
    // A bucket that holds a second of its share, as those of the limit do.
    const level = Math.min(tokens, (place.levels.get(id) ?? tokens) + tokens * seconds)
    const admitted = Math.min(wanted, Math.floor(level))
    place.levels.set(id, level - admitted)
    const count = place.counts.get(id) ?? { admitted: 0, denied: 0 }
    count.admitted += admitted
    count.denied += wanted - admitted
    place.counts.set(id, count)
    return { id, ...count, returned: 0 }
  }

  /** Tokens a second; the region that is busiest differs from key to key. */
  #demand(place: Place, index: number): number {
    const count = this.#places.length
    if (this.#load === 'overload') return (1.5 * CAPACITY) / count
    const isBusy = this.#places[index % count] === place
    return isBusy ? 0.6 * CAPACITY : (0.3 * CAPACITY) / (count - 1)
  }

  #feed(place: Place, event: LedgerEvent): void {
    const { state, effects } = step(place.state, event, this.nowMs)
    place.state = state
    for (const effect of effects) this.#carryOut(place, effect)
  }

  #carryOut(place: Place, effect: LedgerEffect): void {
    if (effect.kind === 'publish') place.isUrgent ||= effect.urgent
    if (effect.kind !== 'write-shares') return
    for (const write of effect.writes) place.shares.set(write.id, write.home + write.borrowed)
    const outcomes = new Map(effect.writes.map(({ id }) => [id, 'written' as const]))
    this.#feed(place, { kind: 'shares-written', outcomes })
  }

  #send(place: Place): void {
    place.isUrgent = false
    place.sentMs = this.nowMs
    const built = this.costs.time('send', () => buildRecord(place.state, [], this.nowMs))
    place.state = built.state
    const payloads = this.costs.time('wire', () => {
      const { from, mark } = built.record
      const update = place.writer.next(built.record, place.keeper.next(from, mark, this.nowMs))
      if (update.since.rows < 0) this.costs.wholes += 1
      return encodeRecord(update)
    })
    this.costs.messages += 1
    for (const { byteLength } of payloads) this.costs.bytes += byteLength
    this.#messages.push({ atMs: this.nowMs + DELAY_MS, payloads, from: place })
  }

  #deliver(): void {
    const due = this.#messages.filter(({ atMs }) => atMs <= this.nowMs)
    this.#messages = this.#messages.filter(({ atMs }) => atMs > this.nowMs)
    for (const message of due) {
      for (const place of this.#places) if (place !== message.from) this.#hear(place, message)
    }
  }

  #hear(place: Place, { payloads, from }: Message): void {
    const held = this.costs.time('wire', () => heldAfter(place.held.get(from.name), payloads))
    if (held === null) {
      from.keeper.ask()
      return
    }
    place.held.set(from.name, held)
    place.keeper.hear(held.record, this.nowMs)
    this.costs.time('record', () => this.#feed(place, { kind: 'record', record: held.record }))
  }
}

function heldAfter(
  before: HeldRecord | undefined,
  payloads: readonly Uint8Array[],
): HeldRecord | null {
  const assembly = new RecordAssembly()
  for (const payload of payloads) {
    const decoded = decodeChunk(payload)
    const encoded = decoded.kind === 'chunk' ? assembly.add(decoded.chunk, 0) : null
    if (encoded === null) continue
    const applied = applyUpdate(before ?? null, decodeUpdate(encoded, encoded.body))
    return applied.kind === 'record' ? applied.held : null
  }
  return null
}

function aPlace(name: string, tickMs: number): Place {
  return {
    name,
    writer: new RecordWriter(),
    keeper: new SinceKeeper(),
    held: new Map(),
    counts: new Map(),
    shares: new Map(),
    levels: new Map(),
    state: createLedger(name),
    isUrgent: false,
    sentMs: Number.NEGATIVE_INFINITY,
    tickMs,
    measureMs: tickMs,
  }
}

function limitOf(regions: readonly string[]): LedgerLimit {
  const weights = Object.fromEntries(regions.map((region) => [region, 1]))
  return {
    id: 1,
    algorithm: 'token_bucket',
    capacity: CAPACITY,
    windowMs: 1_000,
    burst: CAPACITY,
    usageEpoch: 0,
    epoch: 1,
    base: splitBase(weights, CAPACITY),
    previousBase: null,
    floorPercent: 2,
  }
}
