import type { Process, Task } from './process.ts'
import type { RegionRedis } from './region-redis.ts'

/** One connection of a daemon to its region's Redis; it does not reconnect. */
export class Connection {
  readonly redis: RegionRedis
  readonly process: Process
  #number: number | null = null

  constructor(redis: RegionRedis, process: Process) {
    this.redis = redis
    this.process = process
  }

  *open(): Task {
    this.#number = yield* this.call(() => this.redis.connection)
  }

  /** One round trip; throws StoreFailure where no reply came, done or not. */
  *call<Result>(run: () => Result): Task<Result> {
    const replies: Result[] = []
    yield { kind: 'store', connection: this.#number, run: () => void replies.push(run()) }
    const [reply] = replies
    // The driver throws where there is no reply, so the cast only restores what pushing lost.
    return reply as Result
  }

  *sleepFor(ms: number): Task {
    yield { kind: 'sleep', untilMs: this.process.nowMs() + ms }
  }
}
