import { timingSafeEqual } from 'node:crypto'
import type { Db } from '../../../shared/postgres/plane.ts'
import { findToken, noteTokenUse, type StoredToken } from '../../../shared/postgres/tokens.ts'
import type { TokenParts } from '../../../shared/protocol/token-format.ts'
import { type Caller, isScope } from './scopes.ts'

/** How long a row is believed: the longest that a revoked token goes on working in an admin that did not revoke it. */
export const TOKEN_BELIEVED_MS = 2_000

/** Tokens remembered at once, unknown ones included, so that random ids fill no memory. */
const REMEMBERED_MAX = 10_000

interface Remembered {
  readonly untilMs: number
  readonly row: Promise<StoredToken | null>
}

/**
 * Says whose a token is. Rows are read from Postgres at most once in TOKEN_BELIEVED_MS, so a plane's readers do not
 * load it, and a revocation counts everywhere within that time.
 */
export class TokenBook {
  readonly #db: Db
  readonly #wallMs: () => number
  readonly #remembered = new Map<string, Remembered>()
  #used = new Map<string, Date>()

  constructor(db: Db, wallMs: () => number) {
    this.#db = db
    this.#wallMs = wallMs
  }

  /** Null for a token that is unknown, wrong, revoked or expired. Rejects with QUOTA_DATABASE_UNAVAILABLE. */
  async callerOf({ id, digest }: TokenParts): Promise<Caller | null> {
    const row = await this.#read(id)
    if (row === null || !timingSafeEqual(row.digest, digest)) return null
    const nowMs = this.#wallMs()
    if (row.revokedAt !== null) return null
    if (row.expiresAt !== null && row.expiresAt.getTime() <= nowMs) return null
    this.#used.set(id, new Date(nowMs))
    return { actor: `token:${row.name}`, scopes: row.scopes.filter(isScope), domains: row.domains }
  }

  /** Forgets what is believed of a token, so that its revocation counts here at once. */
  forget(id: string): void {
    this.#remembered.delete(id)
  }

  /** Writes down which tokens were used since the last time. What cannot be written is kept for the next time. */
  async noteUses(): Promise<void> {
    const uses = this.#used
    if (uses.size === 0) return
    this.#used = new Map()
    try {
      await noteTokenUse(this.#db, uses)
    } catch (err) {
      this.#used = new Map([...uses, ...this.#used])
      throw err
    }
  }

  #read(id: string): Promise<StoredToken | null> {
    const nowMs = this.#wallMs()
    const known = this.#remembered.get(id)
    if (known !== undefined && known.untilMs > nowMs) return known.row
    const row = findToken(this.#db, id)
    this.#remembered.delete(id)
    this.#remembered.set(id, { untilMs: nowMs + TOKEN_BELIEVED_MS, row })
    const [oldest] = this.#remembered.keys()
    if (this.#remembered.size > REMEMBERED_MAX && oldest !== undefined) {
      this.#remembered.delete(oldest)
    }
    // A failure is no answer: the next request asks again.
    row.catch(() => this.forget(id))
    return row
  }
}
