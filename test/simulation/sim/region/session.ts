/**
 * One stretch of leading a region, as services/sync/session.ts: one event at a time, each effect confirmed before
 * the next begins, the first failed write ends it.
 */
import { RENEW_INTERVAL_MS } from '../../../../services/sync/leadership.ts'
import { measureDueMs, urgentSpacingMs } from '../../../../services/sync/region-memory.ts'
import { SEQ_RESERVE } from '../../../../services/sync/session.ts'
import { unreachable } from '../../../../shared/core/assert.ts'
import type { CounterId } from '../../../../shared/core/descriptor.ts'
import { TICK_MS } from '../../../../shared/core/ledger/constants.ts'
import { buildRecord } from '../../../../shared/core/ledger/record.ts'
import { step } from '../../../../shared/core/ledger/step.ts'
import type {
  LedgerEffect,
  LedgerEvent,
  RegionRecord,
  UsageRow,
} from '../../../../shared/core/ledger/types.ts'
import type { Connection } from './connection.ts'
import type { DaemonMemory } from './daemon-memory.ts'
import type { Lease } from './lease.ts'
import type { Task } from './process.ts'
import * as store from './store-writes.ts'

const SEQ_LEFT_MIN = 100

/** What a daemon needs of the world around its region. */
export interface Surroundings {
  publish(record: RegionRecord): void
  askPlane(question: number): void
  askIncarnation(request: string, atLeast: number): void
  /** Own usage for the next record. */
  usage(): readonly UsageRow[]
  /** Called when shares of these keys changed in Redis; null: of all, limits did. */
  onStoreChange(ids: readonly CounterId[] | null): void
  wallMs(): number
}

export interface SessionDeps {
  readonly connection: Connection
  readonly lease: Lease
  readonly memory: DaemonMemory
  readonly surroundings: Surroundings
}

export class Session {
  readonly #deps: SessionDeps
  readonly #fence: number
  #offsetMs: number
  #seqReserved = 0
  #renewDueMs = 0
  #tickDueMs = 0
  #measureDueMs = 0
  #measuredMs = 0
  #sentMs = Number.NEGATIVE_INFINITY
  #isUrgent = false
  #isServing = false

  constructor(deps: SessionDeps, opened: store.Opened) {
    this.#deps = deps
    this.#fence = opened.fence
    this.#offsetMs = opened.storeUs / 1_000 - deps.connection.process.nowMs()
  }

  get storeOffsetMs(): number {
    return this.#offsetMs
  }

  *run(): Task {
    for (;;) yield* this.#stepOnce()
  }

  *handle(event: LedgerEvent): Task {
    const { lease, memory } = this.#deps
    lease.require()
    const { state, effects } = step(memory.ledger, event, this.#nowMs())
    memory.ledger = state
    memory.steps++
    for (const effect of effects) yield* this.#carryOut(effect)
  }

  *usePlane(): Task {
    const { memory, connection } = this.#deps
    const { revision: policyRevision, answers: _answers, ...plane } = memory.plane
    yield* this.handle({ kind: 'limits', policyRevision, ...plane })
    yield* this.#writePolicies()
    if (this.#isServing) return
    yield* this.write(() => connection.redis.loadScripts(), null)
    this.#isServing = true
  }

  *reserve(upTo: number): Task {
    const { redis } = this.#deps.connection
    yield* this.write(() => {
      redis.image.seqReserved = upTo
    })
    this.#seqReserved = upTo
  }

  /** One script under this session's fence. `ids` are the keys whose shares it changes, null is all. */
  *write<Result>(run: () => Result, ids: readonly CounterId[] | null = []): Task<Result> {
    const { connection, surroundings } = this.#deps
    return yield* connection.call(() => {
      store.requireFence(connection.redis, this.#fence)
      const result = run()
      if (ids === null || ids.length > 0) surroundings.onStoreChange(ids)
      return result
    })
  }

  *#stepOnce(): Task {
    const nowMs = this.#nowMs()
    if (nowMs >= this.#renewDueMs) yield* this.#renew()
    else if (nowMs >= this.#tickDueMs) yield* this.#tick()
    else if (nowMs >= this.#measureDueMs) yield* this.#measure()
    else if (this.#isUrgent && nowMs >= this.#urgentDueMs()) yield* this.#send()
    else if (!(yield* this.#takeArrival())) {
      yield* this.#deps.connection.sleepFor(this.#nextDueMs() - nowMs)
    }
  }

  *#renew(): Task {
    const { lease, connection, memory, surroundings } = this.#deps
    const claim = yield* lease.claim(connection)
    this.#renewDueMs = this.#nowMs() + RENEW_INTERVAL_MS
    if (claim !== 'continued') throw new store.StoreFailure('another daemon may have led')
    if (memory.freshQuestion > 0) surroundings.askPlane(++memory.asked)
  }

  *#tick(): Task {
    this.#tickDueMs = this.#nowMs() + TICK_MS
    yield* this.handle({ kind: 'tick' })
    yield* this.#send()
  }

  *#measure(): Task {
    const { connection } = this.#deps
    const { storeUs, ...reading } = yield* connection.call(() => store.collect(connection.redis))
    this.#offsetMs = storeUs / 1_000 - this.#nowMs()
    yield* this.handle({ kind: 'measured', ...reading, storeOffsetMs: this.#offsetMs })
    this.#measuredMs = this.#nowMs()
    this.#dateMeasure()
  }

  #dateMeasure(): void {
    const at = { measuredMs: this.#measuredMs, nowMs: this.#nowMs() }
    this.#measureDueMs = measureDueMs(this.#deps.memory.ledger, at)
  }

  /** False when nothing has arrived. */
  *#takeArrival(): Task<boolean> {
    const { memory } = this.#deps
    const plane = memory.takePlane()
    if (plane !== null) {
      if (!memory.accepts(plane)) return true
      memory.plane = plane
      memory.freshQuestion = 0
      yield* this.usePlane()
      return true
    }
    const record = memory.takeRecord()
    if (record === null) return false
    if (memory.isOutranked(record)) {
      memory.forgetLedger()
      throw new store.StoreFailure('outranked')
    }
    yield* this.handle({ kind: 'record', record })
    this.#dateMeasure()
    return true
  }

  *#carryOut(effect: LedgerEffect): Task {
    const { lease, memory, connection } = this.#deps
    const { redis } = connection
    lease.require()
    switch (effect.kind) {
      case 'write-pairs':
        yield* this.write(() => store.writePairs(redis, effect.pairs))
        break
      case 'write-homes':
        memory.homes = effect.homes
        memory.isRecovering = effect.recovering
        yield* this.#writePolicies()
        break
      case 'write-shares': {
        const offsetMs = this.#offsetMs
        const write = () => store.writeShares(redis, effect.writes, offsetMs)
        const ids = effect.writes.map(({ id }) => id)
        yield* this.handle({ kind: 'shares-written', outcomes: yield* this.write(write, ids) })
        break
      }
      case 'publish':
        this.#isUrgent ||= effect.urgent
        break
      default:
        unreachable(effect)
    }
  }

  *#writePolicies(): Task {
    const { memory, connection } = this.#deps
    const { plane, homes, isRecovering: recovering } = memory
    const change = { plane, homes, recovering }
    yield* this.write(() => store.writePolicies(connection.redis, change), null)
  }

  /** Builds and publishes in one turn: a record never tells of anything that is not durable. */
  *#send(): Task {
    const { memory, lease, surroundings } = this.#deps
    if (this.#seqReserved - memory.ledger.nextSeq < SEQ_LEFT_MIN) {
      yield* this.reserve(memory.ledger.nextSeq + SEQ_RESERVE)
    }
    lease.require()
    const nowMs = this.#nowMs()
    const { state, record } = buildRecord(memory.ledger, surroundings.usage(), nowMs)
    memory.ledger = state
    surroundings.publish(record)
    this.#sentMs = nowMs
    this.#isUrgent = false
  }

  #nowMs(): number {
    return this.#deps.connection.process.nowMs()
  }

  #urgentDueMs(): number {
    return this.#sentMs + urgentSpacingMs(this.#deps.memory.ledger)
  }

  #nextDueMs(): number {
    const urgentMs = this.#isUrgent ? this.#urgentDueMs() : Number.POSITIVE_INFINITY
    return Math.min(this.#renewDueMs, this.#tickDueMs, this.#measureDueMs, urgentMs)
  }
}
