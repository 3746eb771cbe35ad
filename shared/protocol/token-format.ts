/**
 * A token is `qp_<id>_<secret>`: the id finds its row, the secret proves it.
 *
 * The secret has 256 random bits, so a plain SHA-256 of it is as good a digest as a slow one: there is nothing to
 * guess. The prefix lets secret scanners find a token that was committed by mistake.
 */
import { createHash, randomBytes } from 'node:crypto'

const ID_CHARS = 16
const ALPHABET = 'abcdefghijklmnopqrstuvwxyz234567'
const SECRET_BYTES = 32

const TOKEN = /^qp_([a-z2-7]{16})_([\w-]{43})$/

export interface TokenParts {
  readonly id: string
  readonly digest: Buffer
}

export function newToken(): TokenParts & { readonly token: string } {
  const id = [...randomBytes(ID_CHARS)].map((byte) => ALPHABET[byte % ALPHABET.length]).join('')
  const secret = randomBytes(SECRET_BYTES).toString('base64url')
  return { id, digest: digestOf(secret), token: `qp_${id}_${secret}` }
}

/** Null for what is not one of our tokens. */
export function parseToken(text: string): TokenParts | null {
  const [, id, secret] = TOKEN.exec(text) ?? []
  return id === undefined || secret === undefined ? null : { id, digest: digestOf(secret) }
}

export function digestOf(text: string): Buffer {
  return createHash('sha256').update(text).digest()
}
