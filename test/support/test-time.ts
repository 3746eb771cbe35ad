import type { Redis } from 'ioredis'
import { readScripts, type ScriptName, type ScriptTexts } from '../../shared/redis/scripts.ts'

const KEY = 'test:now'
const REAL = "redis.call('TIME')"

/** Redis answers TIME as [seconds, microseconds]; the test build answers from a key instead. */
const FROM_KEY = `(function()
  local us = tonumber(redis.call('GET', '${KEY}'))
  return { math.floor(us / 1000000), us % 1000000 }
end)()`

/** Expiry runs on real time, which stands beside test time; put off so that a slow test loses no counter. */
const EXPIRIES = ['keep_ms(C, now)', 'keep']
const PUT_OFF_MS = 3_600_000

/** The scripts of the product with their one reading of the clock replaced by a key that the test sets. */
export function scriptsWithTestTime(): ScriptTexts {
  const texts = Object.entries(readScripts()).map(([name, text]) => [
    name as ScriptName,
    EXPIRIES.reduce(
      (changed, expiry) =>
        changed.replaceAll(`integer(${expiry})`, `integer(${PUT_OFF_MS} + ${expiry})`),
      text.replaceAll(REAL, FROM_KEY),
    ),
  ])
  return Object.fromEntries(texts) as ScriptTexts
}

/** Redis TIME minus the daemon's clock under test time, ms. */
export const TEST_OFFSET_MS = 1_000_000

/** A clock that stands still until it is moved; Redis and the daemon both read it. */
export class TestTime {
  readonly #redis: Redis
  #us: number

  constructor(redis: Redis, startUs: number) {
    this.#redis = redis
    this.#us = startUs
  }

  get us(): number {
    return this.#us
  }

  async set(us: number): Promise<void> {
    this.#us = us
    await this.#redis.set(KEY, us.toFixed(0))
  }

  advanceMs(ms: number): Promise<void> {
    return this.set(this.#us + Math.round(ms * 1_000))
  }

  /** The daemon's monotonic clock: the same pace from another zero. */
  readonly clock = { monotonicMs: (): number => this.#us / 1_000 - TEST_OFFSET_MS }
}
