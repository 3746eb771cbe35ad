/**
 * The sync daemon's one connection: runs its scripts under its fence, and knows when it is in doubt.
 *
 * After any call that failed it cannot be known what was written, so nothing more is run under that fence: a late
 * write would otherwise undo a later one. Only `open`, with a new fence, clears doubt; a later success never does.
 */
import type { Redis } from 'ioredis'
import { assert } from '../core/assert.ts'
import { isQuotaError, QuotaError } from '../errors.ts'
import { RedisCluster } from './redis-cluster.ts'
import { mastersOf, onNodeOf, ownersOf, type RegionRedis } from './region-redis.ts'
import { refusalOf, runScript, SCRIPTS, type ScriptName, type ScriptTexts } from './scripts.ts'

/** Longest wait for one reply. Past it the connection is given up: the reply, if it comes, must reach nobody. */
export const REGION_DEADLINE_MS = 2_000

/**
 * A call with megabytes of arguments may take longer: they are sent and read first, on a busy machine at some megabytes
 * a second. Ten thousand policies that all change are ten of them. A late write is safe, since it is fenced.
 */
const BYTES_PER_DEADLINE_MS = 4_096

type Arg = string | number | Buffer

/** What an opened link writes under. */
export interface Opened {
  readonly fence: number
  readonly replicationId: string
}

export class RegionLink {
  readonly #redis: RegionRedis
  readonly #texts: ScriptTexts
  #shas: ReadonlyMap<ScriptName, string> = new Map()
  #opened: Opened | null = null
  #isGivenUp = false

  constructor(redis: RegionRedis, texts: ScriptTexts) {
    this.#redis = redis
    this.#texts = texts
  }

  get isCluster(): boolean {
    return this.#redis instanceof RedisCluster
  }

  /** Loads the daemon's own scripts; after a connection was made, and again at each opening. */
  async loadScripts(): Promise<void> {
    const names = (Object.keys(SCRIPTS) as ScriptName[]).filter(
      (name) => SCRIPTS[name].loader === 'open',
    )
    const shas = await this.within("load the daemon's scripts", () =>
      Promise.all(names.map((name) => this.load(this.#texts[name]))),
    )
    this.#shas = new Map(names.map((name, index) => [name, shas[index] ?? '']))
  }

  /** Loads a script on every server; gives its SHA. Rejects as ioredis does. */
  async load(text: string): Promise<string> {
    const masters = await mastersOf(this.#redis)
    const shas = await Promise.all(masters.map((master) => master.script('LOAD', text)))
    return String(shas[0])
  }

  /** The server that has `key`. */
  onNode<T>(key: string, call: (node: Redis) => Promise<T>): Promise<T> {
    return onNodeOf(this.#redis, key, call)
  }

  /** Asks every server that has one of these keys, or every master where none is named. */
  async onEach<T>(
    keys: readonly string[] | 'masters',
    call: (node: Redis) => Promise<T>,
  ): Promise<readonly T[]> {
    const nodes =
      keys === 'masters' ? await mastersOf(this.#redis) : await ownersOf(this.#redis, keys)
    return await Promise.all(nodes.map(call))
  }

  textOf(name: ScriptName): string {
    return this.#texts[name]
  }

  /** Fence and replication id; rejects before `open` and in doubt. */
  get opened(): Opened {
    if (this.#opened !== null) return this.#opened
    throw new QuotaError('QUOTA_FENCED', 'the region store must be opened before it is used')
  }

  markOpened(opened: Opened): void {
    this.#opened = opened
  }

  markClosed(): void {
    this.#opened = null
  }

  /** Runs a script that needs no fence. */
  run(name: ScriptName, keys: readonly string[], args: readonly Arg[]): Promise<unknown> {
    const sha = this.#shas.get(name)
    assert(sha !== undefined, `${name} is a script of the daemon`)
    const call = () => runScript(this.#redis, sha, keys, args)
    return this.within(`run ${name}`, call, deadlineFor(args))
  }

  /** Runs a script under the fence, which is its first two arguments; a refusal or failure leaves doubt. */
  async runFenced(
    name: ScriptName,
    keys: readonly string[],
    args: readonly Arg[],
  ): Promise<unknown> {
    const { fence, replicationId } = this.opened
    try {
      const reply = await this.run(name, keys, [fence, replicationId, ...args])
      const refusal = refusalOf(reply)
      if (refusal !== null) throw new QuotaError('QUOTA_FENCED', `${name} was refused: ${refusal}`)
      return reply
    } catch (err) {
      // A call of an older fence may fail after a newer one was taken; that one is not in doubt.
      if (this.#opened?.fence === fence) this.markClosed()
      throw err
    }
  }

  /** Bounds a call and translates the driver's errors. */
  async within<T>(
    what: string,
    call: () => Promise<T>,
    deadlineMs = REGION_DEADLINE_MS,
  ): Promise<T> {
    let timer: NodeJS.Timeout | undefined
    const late = new Promise<never>((_, reject) => {
      timer = setTimeout(() => {
        this.#giveUp()
        reject(unavailable(`${what}: no reply within ${deadlineMs} ms`))
      }, deadlineMs)
    })
    try {
      return await Promise.race([call(), late])
    } catch (err) {
      throw isQuotaError(err) ? err : unavailable(`${what} failed`, err)
    } finally {
      clearTimeout(timer)
    }
  }

  close(): void {
    this.markClosed()
    this.#giveUp()
  }

  /** Once: each call leaves a listener on the socket of a server that hangs, and many calls end together. */
  #giveUp(): void {
    if (this.#isGivenUp) return
    this.#isGivenUp = true
    this.#redis.disconnect()
  }
}

function deadlineFor(args: readonly Arg[]): number {
  const bytes = args.reduce<number>(
    (sum, arg) => sum + (typeof arg === 'number' ? 0 : arg.length),
    0,
  )
  return REGION_DEADLINE_MS + Math.floor(bytes / BYTES_PER_DEADLINE_MS)
}

export function unavailable(message: string, cause?: unknown): QuotaError {
  return new QuotaError('QUOTA_STORE_UNAVAILABLE', message, { cause })
}
