import type { Redis } from 'ioredis'
import { REGION_KEYS, type RegionField } from './keys.ts'

/** SHAs of the scripts that the sync daemon serves at present. */
export interface ServedShas {
  readonly check: string
  readonly giveBack: string
}

/**
 * Where enforcers learn which scripts to call. They load none themselves: a Redis whose daemon has not served it
 * since it restarted must not decide.
 */
export class ServedScripts {
  readonly #redis: Redis
  #shas: ServedShas | null = null
  #reading: Promise<ServedShas | null> | null = null

  constructor(redis: Redis) {
    this.#redis = redis
  }

  /** What was read last; null before the first reading, or when no daemon serves. */
  get shas(): ServedShas | null {
    return this.#shas
  }

  /** Reads them again; callers that arrive meanwhile share the reading. Rejects as ioredis does. */
  read(): Promise<ServedShas | null> {
    this.#reading ??= this.#readOnce().finally(() => {
      this.#reading = null
    })
    return this.#reading
  }

  async #readOnce(): Promise<ServedShas | null> {
    const fields: RegionField[] = ['checkSha', 'giveBackSha']
    const [check, giveBack] = await this.#redis.hmget(REGION_KEYS.region, ...fields)
    this.#shas = check && giveBack ? { check, giveBack } : null
    return this.#shas
  }
}
