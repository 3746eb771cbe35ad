import { describe, expect, it } from 'vitest'
import { CallerBook } from '../../../services/enforcer/caller-book.ts'
import type { CheckToken, CheckTokens } from '../../../shared/core/check-tokens.ts'
import { QuotaError } from '../../../shared/errors.ts'
import { newToken } from '../../../shared/protocol/token-format.ts'
import { createLogger } from '../../../shared/runtime/logger.ts'

const log = createLogger({ service: 'test', level: 'silent' })

/** A token with what a region is told of it. */
function aToken(change: Partial<CheckToken> = {}) {
  const { id, digest, token } = newToken()
  const stored = { id, digest: digest.toString('base64url'), domains: null, expiresAtMs: null }
  return { stored: { ...stored, ...change }, field: `Bearer ${token}` }
}

function aBook() {
  const clock = { nowMs: 1_000, wallMs: () => clock.nowMs }
  const redis: { now: CheckTokens | null; fails: boolean } = { now: null, fails: false }
  const book = new CallerBook({
    clock,
    log,
    reader: {
      readOther: async (knownAsOfMs) => {
        if (redis.fails) throw new QuotaError('QUOTA_STORE_UNAVAILABLE', 'Redis is away')
        return redis.now?.asOfMs === knownAsOfMs ? null : redis.now
      },
    },
  })
  const tell = async (asOfMs: number, ...tokens: readonly CheckToken[]): Promise<void> => {
    redis.now = { asOfMs, tokens }
    await book.pollOnce()
  }
  return { book, clock, redis, tell }
}

const REFUSED = expect.objectContaining({ code: 'QUOTA_UNAUTHENTICATED' })

describe('a book of callers', () => {
  it('lets nobody in before tokens were read, and says that this may pass', async () => {
    const { book, tell } = aBook()
    const { field } = aToken()
    await book.pollOnce()
    expect(book.isKnown).toBe(false)
    expect(() => book.require(field)).toThrow(
      expect.objectContaining({ code: 'QUOTA_STORE_UNAVAILABLE' }),
    )
    await tell(1)
    expect(book.isKnown).toBe(true)
    expect(() => book.require(field)).toThrow(REFUSED)
  })

  it('lets in who sends the secret of a token, and nobody who sends another', async () => {
    const { book, tell } = aBook()
    const [one, two] = [aToken(), aToken()]
    await tell(1, one.stored)
    for (const field of [one.field, one.field.replace('Bearer', 'bearer '), one.field]) {
      expect(() => book.require(field, 'api')).not.toThrow()
    }
    const mixed = one.field.slice(0, -43) + two.field.slice(-43)
    const wrong = [undefined, '', 'Bearer', two.field, mixed, one.field.slice(7), `${one.field}x`]
    for (const field of wrong) expect(() => book.require(field)).toThrow(REFUSED)
  })

  it('refuses a token from the instant of its end on, also one that it let in before', async () => {
    const { book, clock, tell } = aBook()
    const { stored, field } = aToken({ expiresAtMs: 2_000 })
    await tell(1, stored)
    clock.nowMs = 1_999
    expect(() => book.require(field)).not.toThrow()
    clock.nowMs = 2_000
    expect(() => book.require(field)).toThrow(REFUSED)
  })

  it('lets a token with domains ask about those alone', async () => {
    const { book, tell } = aBook()
    const { stored, field } = aToken({ domains: ['api', 'mail'] })
    await tell(1, stored)
    expect(() => book.require(field)).not.toThrow()
    expect(() => book.require(field, 'mail')).not.toThrow()
    for (const domain of ['ap', 'api.', '', 'other']) {
      expect(() => book.require(field, domain)).toThrow(
        expect.objectContaining({ code: 'QUOTA_FORBIDDEN' }),
      )
    }
  })

  it('forgets a revoked token that it let in before, and takes over changed domains', async () => {
    const { book, tell } = aBook()
    const [one, two] = [aToken(), aToken()]
    await tell(1, one.stored, two.stored)
    for (const { field } of [one, two]) expect(() => book.require(field, 'api')).not.toThrow()
    await tell(2, { ...two.stored, domains: ['mail'] })
    expect(() => book.require(one.field)).toThrow(REFUSED)
    expect(() => book.require(two.field, 'api')).toThrow(
      expect.objectContaining({ code: 'QUOTA_FORBIDDEN' }),
    )
  })

  it('keeps what it has while Redis is away, and when Redis has lost it', async () => {
    const { book, redis, tell } = aBook()
    const { stored, field } = aToken()
    await tell(1, stored)
    redis.fails = true
    await expect(book.pollOnce()).rejects.toThrow('Redis is away')
    expect(() => book.require(field)).not.toThrow()
    redis.fails = false
    redis.now = null
    await book.pollOnce()
    expect(() => book.require(field)).not.toThrow()
  })

  it('goes on telling right from wrong when more tokens than it remembers are sent', async () => {
    const { book, tell } = aBook()
    const tokens = Array.from({ length: 1_200 }, () => aToken())
    await tell(1, ...tokens.map(({ stored }) => stored))
    for (let round = 0; round < 2; round++) {
      for (const { field } of tokens) expect(() => book.require(field)).not.toThrow()
    }
    expect(() => book.require(aToken().field)).toThrow(REFUSED)
  })

  it('never says what was sent', async () => {
    const { book, tell } = aBook()
    await tell(1)
    const { field } = aToken()
    expect(() => book.require(field)).toThrow(
      expect.not.objectContaining({ message: expect.stringContaining(field.slice(7)) }),
    )
  })
})
