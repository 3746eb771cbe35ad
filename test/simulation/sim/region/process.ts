/**
 * A process of the simulated world: a generator that runs until it has to wait.
 *
 * It waits for a reply of its region's Redis or for its own clock; a message may end the latter. It can be killed
 * between any two waits, and stopped (SIGSTOP): then its clock runs on and all that it waits for waits for it.
 */
import type { EventQueue } from '../world/event-queue.ts'
import type { HostClock } from '../world/host-clock.ts'
import type { Prng } from '../world/prng.ts'
import type { RegionRedis } from './region-redis.ts'
import { StoreFailure } from './store-writes.ts'

export type Wait =
  /** Until the reply of one call over a connection to Redis; throws StoreFailure when there is none. */
  | { readonly kind: 'store'; readonly connection: number | null; readonly run: () => void }
  /** Until the process' own clock shows `untilMs`, or until it is woken. */
  | { readonly kind: 'sleep'; readonly untilMs: number }

export type Task<Result = void> = Generator<Wait, Result, void>

/** How calls travel between a daemon and its Redis, which are near each other. */
export interface StoreLink {
  readonly delayMs: number
  readonly jitterMs: number
  /** Calls whose reply is lost: done, but nobody knows. */
  readonly lostReply: number
  /** Calls that never arrive. */
  readonly lostCall: number
}

export const GOOD_STORE_LINK: StoreLink = { delayMs: 0.3, jitterMs: 0.4, lostReply: 0, lostCall: 0 }

/** A call without a reply is given up after this long, a refused connection much sooner. */
const CALL_DEADLINE_MS = 1_000
const REFUSED_MS = 5

export interface ProcessDeps {
  readonly queue: EventQueue
  readonly redis: RegionRedis
  readonly clock: HostClock
  readonly prng: Prng
}

export class Process {
  readonly #deps: ProcessDeps
  storeLink: StoreLink = GOOD_STORE_LINK
  #task: Task | null = null
  /** Grows with each wait that ended, so that a late reply or timer meets nobody. */
  #turn = 0
  #isStopped = false
  #isAsleep = false
  #isWoken = false
  #postponed: (() => void) | null = null

  constructor(deps: ProcessDeps) {
    this.#deps = deps
  }

  get isAlive(): boolean {
    return this.#task !== null
  }

  nowMs(): number {
    return this.#deps.clock.readUs(this.#deps.queue.nowUs) / 1_000
  }

  start(task: Task): void {
    this.#task = task
    this.#isStopped = false
    this.#isWoken = false
    this.#postponed = null
    this.#advance(() => task.next())
  }

  kill(): void {
    this.#task = null
    this.#turn++
    this.#isAsleep = false
  }

  stop(): void {
    this.#isStopped = true
  }

  resume(): void {
    this.#isStopped = false
    const postponed = this.#postponed
    this.#postponed = null
    postponed?.()
  }

  /** Ends the present sleep, or the next one. */
  wake(): void {
    this.#isWoken = true
    if (this.#isAsleep) this.#end((task) => task.next())
  }

  #end(next: (task: Task) => IteratorResult<Wait, void>): void {
    this.#turn++
    this.#isAsleep = false
    const task = this.#task
    if (task === null) return
    const advance = (): void => this.#advance(() => next(task))
    if (this.#isStopped) this.#postponed = advance
    else advance()
  }

  #advance(next: () => IteratorResult<Wait, void>): void {
    const result = next()
    if (result.done === true) {
      this.#task = null
      return
    }
    if (result.value.kind === 'sleep') this.#sleep(result.value.untilMs)
    else this.#call(result.value.connection, result.value.run)
  }

  #sleep(untilMs: number): void {
    const turn = this.#turn
    const { queue, clock } = this.#deps
    this.#isAsleep = true
    if (this.#isWoken) {
      this.#isWoken = false
      queue.after(0, () => this.#wakeIn(turn))
      return
    }
    // A hair later, so that rounding never wakes it before its time.
    queue.at(clock.realUs(untilMs * 1_000) + 1, () => this.#wakeIn(turn))
  }

  #wakeIn(turn: number): void {
    if (turn !== this.#turn || !this.#isAsleep) return
    this.#isWoken = false
    this.#end((task) => task.next())
  }

  #call(connection: number | null, run: () => void): void {
    const turn = this.#turn
    const { queue, redis, prng } = this.#deps
    const link = this.storeLink
    const wayUs = (): number => (link.delayMs + prng.next() * link.jitterMs) * 500
    const reply = (delayUs: number, next: (task: Task) => IteratorResult<Wait, void>): void =>
      queue.after(delayUs, () => {
        if (turn === this.#turn) this.#end(next)
      })
    const fail = (delayMs: number): void =>
      reply(delayMs * 1_000, (task) => task.throw(new StoreFailure('no reply')))
    if (prng.chance(link.lostCall)) {
      fail(CALL_DEADLINE_MS)
      return
    }
    // A call that was sent is carried out even if its sender dies meanwhile.
    queue.after(wayUs(), () => {
      if (!redis.answers(connection)) {
        fail(REFUSED_MS)
        return
      }
      try {
        run()
      } catch (err) {
        if (!(err instanceof StoreFailure)) throw err
        reply(wayUs(), (task) => task.throw(err))
        return
      }
      if (prng.chance(link.lostReply)) fail(CALL_DEADLINE_MS)
      else reply(wayUs(), (task) => task.next())
    })
  }
}
