import { SLOT_GROUPS } from '../core/counter-id.ts'
import type { RegionLimit } from '../core/policy.ts'
import type { SoleCheck } from '../core/ports.ts'
import { Deadlines } from './deadlines.ts'
import { corked } from './region-redis.ts'
import { type SendOptions, sendBatch, tooLate, tooManyWait } from './send-batch.ts'
import { placeOf, readReply, type Teller, tellerOf } from './usual-answers.ts'
import { UsualBatch, type UsualBuffers, usualBuffers } from './usual-batch.ts'
import { UsualNotes } from './usual-notes.ts'

export interface UsualOptions extends Omit<SendOptions, 'script'> {
  readonly deadlineMs: number
  /** As of `Deadlines`. */
  readonly onStall?: ((lateMs: number) => void) | undefined
  readonly waitingMax: number
  /** Decides a check that turns out to be none of the usual ones. */
  readonly otherwise: (check: SoleCheck) => void
}

/**
 * Batches under way at once on a server of its own: while it works on one, the next arrives and the answers of the one
 * before are read. More would only make each smaller.
 */
const SENT_MAX = 4

/** Checks that gather, batches that wait, and those that Redis has. */
interface Lane {
  readonly queue: UsualBatch[]
  /** No set: the tables that one leaves behind hold each other and what was in them (see `Deadlines`). */
  readonly sent: UsualBatch[]
  /** A batch that was sent is overdue and Redis has not answered anything since. */
  isHanging: boolean
}

/**
 * Sends the checks that are what most checks are: those of one turn of the event loop as one script call, whatever
 * their slot groups.
 *
 * A cluster has the slot groups on several servers, so there each group has a call of its own, one at a time. What
 * is said of deadlines in `Batcher` holds here too.
 */
export class UsualChecks {
  readonly #options: UsualOptions & SendOptions
  readonly #deadlines: Deadlines<UsualBatch>
  readonly #lanes: readonly Lane[]
  readonly #sentMax: number
  readonly #spares: UsualBuffers[] = []
  #waiting = 0
  #isFlushDue = false
  readonly #flush = (): void => this.#flushAll()

  constructor(options: UsualOptions) {
    this.#options = { ...options, script: 'checkUsual' }
    const { deadlineMs: afterMs, onStall } = options
    this.#deadlines = new Deadlines({
      afterMs,
      expire: (batch) => this.#hang(batch),
      ...(onStall && { onStall }),
    })
    const { isCluster } = options.redis
    this.#sentMax = isCluster ? 1 : SENT_MAX
    this.#lanes = Array.from({ length: isCluster ? SLOT_GROUPS : 1 }, () => ({
      queue: [],
      sent: [],
      isHanging: false,
    }))
  }

  /** Whether `check` may be asked for here. */
  takes({ target, cost }: SoleCheck): boolean {
    const notes = UsualNotes.of(target)
    if (cost > notes.costMax) return false
    return notes.movedUntilMs === 0 || notes.movedUntilMs < performance.now()
  }

  ask(check: SoleCheck): void {
    const lane = this.#laneOf(check.group)
    if (lane.isHanging) check.failed(tooLate(this.#options.deadlineMs))
    else if (this.#waiting >= this.#options.waitingMax) check.failed(tooManyWait(this.#waiting))
    else {
      this.#waiting += 1
      const batch = this.#batchFor(lane, check)
      batch.add(check, UsualNotes.of(check.target))
      // At once, so that Redis works on it while the rest of this turn gathers the next.
      if (batch.isFull && lane.sent.length < this.#sentMax) this.#send(lane)
      if (lane.queue.length > 0) this.#flushSoon()
    }
  }

  #laneOf(group: number): Lane {
    return this.#lanes[group % this.#lanes.length] as Lane
  }

  #batchFor(lane: Lane, { version, group }: SoleCheck): UsualBatch {
    const { queue } = lane
    const last = queue[queue.length - 1]
    if (last !== undefined && last.version === version && !last.isFull) return last
    const batch = new UsualBatch(version, group, this.#spares.pop() ?? usualBuffers())
    queue.push(batch)
    return batch
  }

  #flushSoon(): void {
    if (this.#isFlushDue) return
    this.#isFlushDue = true
    setImmediate(this.#flush)
  }

  #flushAll(): void {
    this.#isFlushDue = false
    corked(this.#options.redis, () => {
      for (const lane of this.#lanes) {
        while (lane.sent.length < this.#sentMax && lane.queue.length > 0) this.#send(lane)
      }
    })
  }

  #send(lane: Lane): void {
    const batch = lane.queue.shift()
    if (batch === undefined) return
    lane.sent.push(batch)
    this.#deadlines.start(batch)
    const sent = {
      key: batch.key,
      version: batch.version,
      isRepeated: false,
      isGivenUp: () => batch.isGivenUp,
      command: (sha: string) => batch.command(sha),
      answer: (reply: unknown) => this.#answer(batch, reply),
      reject: (err: unknown) => rejectAll(batch, err),
    }
    void sendBatch(this.#options, sent).then((settle) => {
      this.#deadlines.heard()
      lane.sent.splice(lane.sent.indexOf(batch), 1)
      lane.isHanging = false
      // Its callers were told already when it was overdue.
      if (this.#deadlines.end(batch)) {
        this.#waiting -= batch.checks.length
        settle()
      }
      this.#spares.push(batch.buffers)
      if (lane.queue.length > 0) this.#flushSoon()
    })
  }

  #answer({ checks }: UsualBatch, reply: unknown): void {
    const numbers = readReply(reply, checks.length)
    const atUs = numbers[0] ?? 0
    const moved: SoleCheck[] = []
    let limit: RegionLimit | null = null
    let teller: Teller | null = null
    for (let index = 0; index < checks.length; index++) {
      const check = checks[index] as SoleCheck
      if (teller === null || check.target.limit !== limit) {
        limit = check.target.limit
        teller = tellerOf(limit)
      }
      const decision = teller.tell(numbers, placeOf(index), check.cost)
      if (decision !== null) check.decided(decision, atUs)
      else moved.push(check)
    }
    for (const check of moved) {
      UsualNotes.of(check.target).moved(performance.now())
      this.#options.otherwise(check)
    }
  }

  /** With what is overdue all that was sent is rejected, for Redis answers in order. */
  #hang(overdue: UsualBatch): void {
    const lane = this.#laneOf(overdue.group)
    lane.isHanging = true
    const err = tooLate(this.#options.deadlineMs)
    for (const batch of lane.sent) {
      if (batch === overdue || this.#deadlines.end(batch)) this.#reject(batch, err)
    }
    for (const batch of lane.queue.splice(0)) {
      this.#reject(batch, err)
      this.#spares.push(batch.buffers)
    }
  }

  #reject(batch: UsualBatch, err: unknown): void {
    batch.isGivenUp = true
    this.#waiting -= batch.checks.length
    rejectAll(batch, err)
  }
}

function rejectAll({ checks }: UsualBatch, err: unknown): void {
  for (const check of checks) check.failed(err)
}
