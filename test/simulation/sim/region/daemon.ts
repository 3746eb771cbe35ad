/**
 * The sync daemon of one region as a task of virtual time: it leads through sessions, each begun by what is known of
 * the past (kept, held, first or lost), as services/sync/daemon.ts and boot.ts do.
 */
import { LEASE_STORE_MS } from '../../../../services/sync/leadership.ts'
import { SEQ_RESERVE } from '../../../../services/sync/session.ts'
import { LOAN_TTL_MS } from '../../../../shared/core/ledger/constants.ts'
import type { Continuity } from '../../../../shared/core/ledger/types.ts'
import { Connection } from './connection.ts'
import { DaemonMemory } from './daemon-memory.ts'
import { Lease } from './lease.ts'
import type { Process, Task } from './process.ts'
import { EMPTY_PLANE } from './redis-image.ts'
import type { RegionRedis } from './region-redis.ts'
import { Session, type Surroundings } from './session.ts'
import * as store from './store-writes.ts'

const RETRY_MS = 150
const STANDBY_MS = 500
const ADMIN_WAIT_MS = LOAN_TTL_MS / 2
const ADMIN_RETRY_MS = 250

export interface DaemonDeps {
  readonly region: string
  readonly holder: string
  readonly process: Process
  readonly redis: RegionRedis
  readonly surroundings: Surroundings
}

interface Beginning {
  readonly continuity: Continuity
  readonly incarnation: number
  readonly isFromStore: boolean
  readonly startUs: number
}

/** A session that is about to begin. */
interface Start {
  readonly session: Session
  readonly connection: Connection
  readonly opened: store.Opened
}

export class Daemon {
  readonly #deps: DaemonDeps
  memory: DaemonMemory
  #lease: Lease
  #ledSinceMs = 0
  #requests = 0
  #stepsBefore = 0

  constructor(deps: DaemonDeps) {
    this.#deps = deps
    this.memory = new DaemonMemory(deps.region)
    this.#lease = new Lease(deps.holder, deps.process)
  }

  get process(): Process {
    return this.#deps.process
  }

  /** Steps that its ledgers took in all its lives, for those who count how much was tried. */
  get steps(): number {
    return this.#stepsBefore + this.memory.steps
  }

  /** A new process: nothing is remembered. */
  start(): void {
    const { region, holder, process } = this.#deps
    this.#stepsBefore = this.steps
    this.memory = new DaemonMemory(region)
    this.#lease = new Lease(holder, process)
    process.start(this.#run())
  }

  *#run(): Task {
    for (;;) {
      const connection = new Connection(this.#deps.redis, this.process)
      try {
        yield* this.#lead(connection)
      } catch (err) {
        if (!(err instanceof store.StoreFailure)) throw err
      }
      yield* connection.sleepFor(RETRY_MS)
    }
  }

  *#lead(connection: Connection): Task {
    yield* connection.open()
    yield* this.#takeLease(connection)
    const session = yield* this.#startSession(connection)
    yield* session.run()
  }

  *#takeLease(connection: Connection): Task {
    for (;;) {
      const claim = yield* this.#lease.claim(connection)
      if (claim === 'continued') return
      this.memory.forgetLedger()
      if (claim === 'taken') {
        this.#ledSinceMs = this.process.nowMs()
        return
      }
      yield* connection.sleepFor(STANDBY_MS)
    }
  }

  *#startSession(connection: Connection): Task<Session> {
    const { memory } = this
    const { surroundings, redis } = this.#deps
    const opened = yield* connection.call(() => store.open(redis))
    const session = new Session({ connection, lease: this.#lease, memory, surroundings }, opened)
    const beginning = yield* this.#begin({ session, connection, opened })
    const firstSeq = Math.max(opened.seqReserved, memory.ledger.nextSeq)
    yield* session.reserve(firstSeq + SEQ_RESERVE)
    const { continuity, incarnation, isFromStore, startUs } = beginning
    const own = {
      pairs: Object.fromEntries(memory.ledger.pairs),
      rows: [...memory.ledger.keys.values()].map((key) => key.row),
    }
    const { pairs, rows } = isFromStore ? opened : own
    yield* session.handle({
      kind: 'started',
      continuity,
      incarnation,
      fence: opened.fence,
      firstSeq,
      pairs,
      rows,
      storeOffsetMs: session.storeOffsetMs,
      bootedAtStoreMs: startUs / 1_000,
    })
    if (memory.freshQuestion === 0 && memory.plane.revision > 0) yield* session.usePlane()
    return session
  }

  *#begin(start: Start): Task<Beginning> {
    const { memory } = this
    const { redis } = this.#deps
    const { opened, session } = start
    const isWhole = opened.scriptsLoaded && opened.incarnation > 0
    const hasLedger = memory.ledger.incarnation > 0
    if (redis.mutant.trustsFile === true && !isWhole && opened.incarnation > 0) {
      return yield* this.#beginWithFile(start)
    }
    if (hasLedger && !(isWhole && opened.incarnation === memory.ledger.incarnation)) {
      const { incarnation } = memory.ledger
      const boot = { incarnation, levels: 'empty', recovering: memory.isRecovering } as const
      const startUs = yield* session.write(() => store.begin(redis, boot))
      return { continuity: 'held', incarnation, isFromStore: false, startUs }
    }
    const isKept = isWhole && !opened.recovering && opened.incarnation >= memory.incarnationHeard
    if (!hasLedger && !isKept) return yield* this.#beginAnew(start)
    if (opened.plane.revision > memory.plane.revision) memory.plane = opened.plane
    const { incarnation, startUs } = opened
    return { continuity: 'kept', incarnation, isFromStore: true, startUs }
  }

  /** Where a rule is left out: levels begin anew, and the rest is as the file has it. */
  *#beginWithFile({ session, opened }: Start): Task<Beginning> {
    const { incarnation, plane } = opened
    const boot = { incarnation, levels: 'empty', recovering: false } as const
    const startUs = yield* session.write(() => store.begin(this.#deps.redis, boot))
    this.memory.plane = plane
    return { continuity: 'kept', incarnation, isFromStore: true, startUs }
  }

  *#beginAnew({ session, connection, opened }: Start): Task<Beginning> {
    const { memory } = this
    const { redis, surroundings } = this.#deps
    const atLeast = Math.max(opened.incarnation, memory.incarnationHeard)
    const { incarnation, isFirst } = yield* this.#nextIncarnation(connection, atLeast)
    // The daemon that led before may believe in its lease for that long, and acknowledge loans of its life.
    if (!isFirst) yield* this.#lease.keep(connection, this.#ledSinceMs + LEASE_STORE_MS)
    const levels = isFirst ? 'full' : 'empty'
    const boot = { incarnation, levels, recovering: !isFirst } as const
    const startUs = yield* session.write(() => store.begin(redis, boot))
    this.#requests++
    memory.ledger = { ...memory.ledger, incarnation: 0 }
    memory.plane = EMPTY_PLANE
    memory.isRecovering = !isFirst
    memory.freshQuestion = ++memory.asked
    surroundings.askPlane(memory.freshQuestion)
    const continuity = isFirst ? 'first' : 'lost'
    return { continuity, incarnation, isFromStore: false, startUs }
  }

  *#nextIncarnation(
    connection: Connection,
    atLeast: number,
  ): Task<{ readonly incarnation: number; readonly isFirst: boolean }> {
    const { memory } = this
    const { holder, surroundings } = this.#deps
    const request = `${holder}.${this.#requests}`
    const endMs = this.process.nowMs() + ADMIN_WAIT_MS
    while (this.process.nowMs() < endMs) {
      surroundings.askIncarnation(request, atLeast)
      yield* this.#lease.keep(connection, this.process.nowMs() + ADMIN_RETRY_MS)
      const reply = memory.arrivedIncarnation
      if (reply?.request !== request) continue
      return { incarnation: reply.incarnation, isFirst: reply.isFirst && atLeast === 0 }
    }
    const incarnation = Math.max(atLeast + 1, Math.floor(surroundings.wallMs()))
    return { incarnation, isFirst: false }
  }
}
