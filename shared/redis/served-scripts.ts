import { REGION_KEYS, type RegionField } from './keys.ts'
import { onNodeOf, type RegionRedis } from './region-redis.ts'
import type { ScriptName } from './scripts.ts'

/** SHAs of the scripts that the sync daemon serves at present. */
export interface ServedShas {
  readonly check: string
  readonly checkUsual: string
  readonly giveBack: string
  readonly release: string
  readonly lease: string
  readonly returnLease: string
  readonly noteDenials: string
}

/** The fields in which the daemon says them. */
export const SERVED_FIELDS: Readonly<Record<keyof ServedShas, RegionField>> = {
  check: 'checkSha',
  checkUsual: 'checkUsualSha',
  giveBack: 'giveBackSha',
  release: 'releaseSha',
  lease: 'leaseSha',
  returnLease: 'returnLeaseSha',
  noteDenials: 'noteDenialsSha',
}

/** The scripts themselves. */
export const SERVED_NAMES: Readonly<Record<keyof ServedShas, ScriptName>> = {
  check: 'check',
  checkUsual: 'check-usual',
  giveBack: 'give-back',
  release: 'release',
  lease: 'lease',
  returnLease: 'return-lease',
  noteDenials: 'note-denials',
}

/**
 * Where enforcers learn which scripts to call. They load none themselves: a Redis whose daemon has not served it
 * since it restarted must not decide.
 */
export class ServedScripts {
  readonly #redis: RegionRedis
  #shas: ServedShas | null = null
  #reading: Promise<ServedShas | null> | null = null

  constructor(redis: RegionRedis) {
    this.#redis = redis
  }

  /** What was read last; null before the first reading, or when no daemon serves. */
  get shas(): ServedShas | null {
    return this.#shas
  }

  /** Has them read anew before the next use. */
  forget(): void {
    this.#shas = null
  }

  /** Reads them again; callers that arrive meanwhile share the reading. Rejects as ioredis does. */
  read(): Promise<ServedShas | null> {
    this.#reading ??= this.#readOnce().finally(() => {
      this.#reading = null
    })
    return this.#reading
  }

  async #readOnce(): Promise<ServedShas | null> {
    const { region } = REGION_KEYS
    const shas = await onNodeOf(this.#redis, region, (node) =>
      node.hmget(region, ...Object.values(SERVED_FIELDS)),
    )
    const entries = Object.keys(SERVED_FIELDS).map((script, index) => [script, shas[index]])
    this.#shas = shas.every(Boolean) ? (Object.fromEntries(entries) as ServedShas) : null
    return this.#shas
  }
}
