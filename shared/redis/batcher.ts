import type { Redis } from 'ioredis'
import type { CheckTarget } from '../core/ports.ts'
import { QuotaError } from '../errors.ts'
import { Batch } from './batch.ts'
import { Deadlines } from './deadlines.ts'
import { type Refusal, refusalOf, runScript } from './scripts.ts'
import type { ServedScripts, ServedShas } from './served-scripts.ts'

export interface BatcherOptions<Answer> {
  readonly redis: Redis
  readonly scripts: ServedScripts
  readonly script: keyof ServedShas
  /** Keys of the slot group that come before the counters. */
  readonly keysOf: (group: number) => readonly string[]
  /** Gives each waiting caller its part of the reply. */
  readonly answer: (batch: Batch<Answer>, reply: unknown) => void
  readonly deadlineMs: number
  readonly targetsMax: number
  readonly waitingMax: number
}

/** One call, as it is handed to the batcher. */
export interface Call {
  readonly group: number
  readonly version: number
  /** What comes before the targets' indexes in the packed item. */
  readonly head: readonly number[]
  readonly targets: readonly CheckTarget[]
}

/** Sends all calls of a slot group that arrive in one turn of the event loop as one script call. */
export class Batcher<Answer> {
  readonly #options: BatcherOptions<Answer>
  readonly #deadlines: Deadlines<Batch<Answer>>
  /** The batch of each slot group that calls may still join. */
  readonly #open = new Map<number, Batch<Answer>>()
  #full: Batch<Answer>[] = []
  #waiting = 0
  #isFlushDue = false

  constructor(options: BatcherOptions<Answer>) {
    this.#options = options
    this.#deadlines = new Deadlines(options.deadlineMs, (batch) =>
      this.#reject(batch, unavailable(`Redis did not answer within ${options.deadlineMs} ms`)),
    )
  }

  call(call: Call): Promise<Answer> {
    if (this.#waiting >= this.#options.waitingMax) {
      const message = `${this.#waiting} checks are waiting for Redis already`
      return Promise.reject(new QuotaError('QUOTA_OVERLOADED', message))
    }
    this.#waiting += 1
    if (!this.#isFlushDue) {
      this.#isFlushDue = true
      setImmediate(() => this.#flush())
    }
    return new Promise((resolve, reject) => {
      const waiting = { targets: call.targets.length, resolve, reject }
      this.#batchFor(call).add(call.head, call.targets, waiting)
    })
  }

  #batchFor({ group, version, targets }: Call): Batch<Answer> {
    const open = this.#open.get(group)
    const fits =
      open !== undefined &&
      open.kind.version === version &&
      open.targets + targets.length <= this.#options.targetsMax
    if (fits) return open
    if (open !== undefined) this.#full.push(open)
    const batch = new Batch<Answer>({ group, version })
    this.#open.set(group, batch)
    return batch
  }

  #flush(): void {
    this.#isFlushDue = false
    const batches = [...this.#full, ...this.#open.values()]
    this.#full = []
    this.#open.clear()
    for (const batch of batches) {
      this.#deadlines.start(batch)
      void this.#send(batch)
    }
  }

  /** Never rejects: a batch's callers are told instead. */
  async #send(batch: Batch<Answer>): Promise<void> {
    const { redis, scripts, script, keysOf } = this.#options
    let used: ServedShas | null = null
    try {
      used = scripts.shas ?? (await scripts.read())
      if (used === null) return this.#fail(batch, notServed())
      const keys = [...keysOf(batch.kind.group), ...batch.counters]
      const reply = await runScript(redis, used[script], keys, batch.args())
      const refusal = refusalOf(reply)
      if (refusal === null) return this.#answer(batch, reply)
      if (refusal !== 'not-served' && refusal !== 'other-server') {
        return this.#fail(batch, refused(refusal, batch.kind.version))
      }
    } catch (err) {
      if (!isNoScript(err)) return this.#fail(batch, unavailable('Redis failed to decide', err))
    }
    await this.#repeat(batch, used)
  }

  /** Sends a batch that changed nothing once more if other scripts are served by now. */
  async #repeat(batch: Batch<Answer>, used: ServedShas | null): Promise<void> {
    const { scripts, script } = this.#options
    try {
      const served = await scripts.read()
      const isOther = served !== null && served[script] !== used?.[script]
      if (batch.isRepeated || !isOther) return this.#fail(batch, notServed())
    } catch (err) {
      return this.#fail(batch, unavailable('Redis failed to say what it serves', err))
    }
    batch.isRepeated = true
    await this.#send(batch)
  }

  #answer(batch: Batch<Answer>, reply: unknown): void {
    if (!this.#deadlines.end(batch)) return
    this.#waiting -= batch.waiting.length
    this.#options.answer(batch, reply)
  }

  #fail(batch: Batch<Answer>, err: QuotaError): void {
    if (this.#deadlines.end(batch)) this.#reject(batch, err)
  }

  #reject(batch: Batch<Answer>, err: QuotaError): void {
    this.#waiting -= batch.waiting.length
    for (const { reject } of batch.waiting) reject(err)
  }
}

/** Redis has no such script: it restarted, and its daemon has not served it since. */
function isNoScript(err: unknown): boolean {
  return err instanceof Error && err.message.startsWith('NOSCRIPT')
}

function notServed(): QuotaError {
  return unavailable('no sync daemon serves this Redis')
}

function unavailable(message: string, cause?: unknown): QuotaError {
  return new QuotaError('QUOTA_STORE_UNAVAILABLE', message, { cause })
}

function refused(refusal: Refusal, version: number): QuotaError {
  return refusal === 'stale'
    ? new QuotaError('QUOTA_POLICY_STALE', `the region has newer policies than version ${version}`)
    : new QuotaError('QUOTA_INVALID_INPUT', `the script refused its arguments (${refusal})`)
}
