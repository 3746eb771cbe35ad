import { assert } from '../core/assert.ts'
import { SLOT_GROUPS } from '../core/counter-id.ts'
import type { GroupCheck } from '../core/ports.ts'
import type { QuotaError } from '../errors.ts'
import { Batch, type Call, type GroupPrefix, groupPrefix } from './batch.ts'
import { Deadlines } from './deadlines.ts'
import { Doubles } from './doubles.ts'
import { corked } from './region-redis.ts'
import { type SendOptions, type SentBatch, sendBatch, tooLate, tooManyWait } from './send-batch.ts'

export interface BatcherOptions<Answer> extends SendOptions {
  /** Keys of the slot group that come before the counters. */
  readonly keysOf: (group: number) => readonly string[]
  /** Gives each waiting caller its part of the reply. */
  readonly answer: (batch: Batch<Answer>, reply: unknown) => void
  readonly deadlineMs: number
  /** As of `Deadlines`. */
  readonly onStall?: ((lateMs: number) => void) | undefined
  readonly targetsMax: number
  readonly waitingMax: number
}

/** The calls of one slot group: those that gather, in order, and the batch that Redis has. */
interface Lane<Answer> {
  readonly queue: Batch<Answer>[]
  sent: Batch<Answer> | null
  /** The batch that was sent is overdue and Redis has not answered yet. */
  isHanging: boolean
}

/**
 * Sends all calls of a slot group that arrive in one turn of the event loop as one script call, and those that
 * arrive before its reply as the next one.
 *
 * One call of a group at a time: under load batches grow by themselves, and the cost that a call has, whatever
 * its size, is shared by more checks. The deadline runs from the sending (see `Deadlines`); a check that gathers waits
 * for one predecessor at most. Once that is overdue, what gathers is rejected with it, and so is what comes, until Redis
 * answers or the connection ends: waiting for a server that hangs helps nobody.
 */
export class Batcher<Answer> {
  readonly #options: BatcherOptions<Answer>
  readonly #deadlines: Deadlines<Lane<Answer>>
  readonly #lanes: readonly Lane<Answer>[]
  readonly #prefixes: readonly GroupPrefix[]
  /** Buffers of batches that are settled. As many as there ever were batches at once, which is bounded. */
  readonly #spares: Batch<Answer>['buffers'][] = []
  #waiting = 0
  #isFlushDue = false

  constructor(options: BatcherOptions<Answer>) {
    this.#options = options
    const { deadlineMs: afterMs, onStall } = options
    this.#deadlines = new Deadlines({
      afterMs,
      expire: (lane) => this.#hang(lane),
      ...(onStall && { onStall }),
    })
    const groups = Array.from({ length: SLOT_GROUPS }, (_, group) => group)
    this.#lanes = groups.map(() => ({ queue: [], sent: null, isHanging: false }))
    this.#prefixes = groups.map((group) => groupPrefix(options.keysOf(group)))
  }

  call(check: GroupCheck, version: number, given: Call['given'] = null): Promise<Answer> {
    const lane = this.#laneOf(check.group)
    if (lane.isHanging) return Promise.reject(tooLate(this.#options.deadlineMs))
    if (this.#waiting >= this.#options.waitingMax) {
      return Promise.reject(tooManyWait(this.#waiting))
    }
    this.#waiting += 1
    this.#flushSoon()
    return new Promise((resolve, reject) => {
      const waiting = { targets: check.targets.length, resolve, reject }
      this.#batchFor(lane, check, version).add({ check, given }, waiting)
    })
  }

  #laneOf(group: number): Lane<Answer> {
    const lane = this.#lanes[group]
    assert(lane !== undefined, 'the slot group exists')
    return lane
  }

  #batchFor(lane: Lane<Answer>, { group, targets }: GroupCheck, version: number): Batch<Answer> {
    const last = lane.queue.at(-1)
    const fits =
      last !== undefined &&
      last.kind.version === version &&
      last.targets + targets.length <= this.#options.targetsMax
    if (fits) return last
    const buffers = this.#spares.pop() ?? { items: new Doubles(), limits: new Doubles() }
    const batch = new Batch<Answer>({ group, version }, buffers)
    lane.queue.push(batch)
    return batch
  }

  #flushSoon(): void {
    if (this.#isFlushDue) return
    this.#isFlushDue = true
    setImmediate(() => {
      this.#isFlushDue = false
      corked(this.#options.redis, () => {
        for (const lane of this.#lanes) this.#advance(lane)
      })
    })
  }

  #advance(lane: Lane<Answer>): void {
    if (lane.sent !== null) return
    const batch = lane.queue.shift()
    if (batch === undefined) return
    lane.sent = batch
    this.#deadlines.start(lane)
    void sendBatch(this.#options, this.#sendable(batch)).then((settle) => {
      this.#deadlines.heard()
      lane.sent = null
      lane.isHanging = false
      // Its callers were told already when it was overdue.
      if (this.#deadlines.end(lane)) {
        this.#waiting -= batch.waiting.length
        settle()
      }
      this.#spares.push(batch.buffers)
      if (lane.queue.length > 0) this.#flushSoon()
    })
  }

  #sendable(batch: Batch<Answer>): SentBatch {
    const prefix = this.#prefixes[batch.kind.group]
    assert(prefix !== undefined, 'the slot group exists')
    return {
      key: prefix.firstKey,
      version: batch.kind.version,
      isRepeated: false,
      isGivenUp: () => batch.isGivenUp,
      command: (sha) => batch.command(sha, prefix),
      answer: (reply) => this.#options.answer(batch, reply),
      reject: (err) => rejectAll(batch, err),
    }
  }

  #hang(lane: Lane<Answer>): void {
    lane.isHanging = true
    const err = tooLate(this.#options.deadlineMs)
    if (lane.sent !== null) this.#reject(lane.sent, err)
    for (const batch of lane.queue.splice(0)) {
      this.#reject(batch, err)
      this.#spares.push(batch.buffers)
    }
  }

  #reject(batch: Batch<Answer>, err: QuotaError): void {
    batch.isGivenUp = true
    this.#waiting -= batch.waiting.length
    rejectAll(batch, err)
  }
}

function rejectAll<Answer>(batch: Batch<Answer>, err: unknown): void {
  for (const { reject } of batch.waiting) reject(err)
}
