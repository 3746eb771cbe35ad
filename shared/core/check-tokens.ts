/** A token that may ask enforcers for checks, without its secret. */
export interface CheckToken {
  readonly id: string
  /** SHA-256 of its secret, base64url. */
  readonly digest: string
  /** Null: every domain. */
  readonly domains: readonly string[] | null
  /** Null: it has no end. */
  readonly expiresAtMs: number | null
}

/** All tokens that may ask for checks, as Postgres had them. */
export interface CheckTokens {
  /** Instant of the reading by the clock of Postgres, which says of two readings which one is later. */
  readonly asOfMs: number
  readonly tokens: readonly CheckToken[]
}
