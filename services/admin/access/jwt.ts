import { createRemoteJWKSet, errors, type JWTPayload, jwtVerify } from 'jose'
import { QuotaError } from '../../../shared/errors.ts'
import { type Caller, isScope } from './scopes.ts'

export interface JwtOptions {
  readonly issuer: string
  readonly audience: string
  readonly jwksUrl: string
}

/** Public-key signatures only: with a shared secret whoever verifies could also sign. */
const ALGORITHMS = [
  'RS256',
  'RS384',
  'RS512',
  'PS256',
  'PS384',
  'PS512',
  'ES256',
  'ES384',
  'ES512',
  'EdDSA',
]

const KEYS_TIMEOUT_MS = 3_000

/** Clocks of an issuer and an admin differ by seconds. */
const CLOCK_TOLERANCE_S = 5

const ACTOR_CHARS_MAX = 200

const COMPACT = /^[\w-]+\.[\w-]+\.[\w-]+$/

/** Whether a bearer token has the form of a JWT. */
export function isJwt(text: string): boolean {
  return COMPACT.test(text)
}

/**
 * Verifies access tokens of one issuer by its published keys.
 *
 * Scopes come from `scope` (space-separated, RFC 9068) or `scp`; the domains, where the token has fewer than all, from
 * the list `quota_domains`. Resolves with null for a token that does not verify; rejects with QUOTA_KEYS_UNAVAILABLE
 * when the issuer's keys cannot be read.
 */
export function createJwtVerifier(options: JwtOptions): (token: string) => Promise<Caller | null> {
  const keys = createRemoteJWKSet(new URL(options.jwksUrl), { timeoutDuration: KEYS_TIMEOUT_MS })
  const expected = {
    issuer: options.issuer,
    audience: options.audience,
    algorithms: ALGORITHMS,
    clockTolerance: CLOCK_TOLERANCE_S,
    requiredClaims: ['sub', 'exp'],
  }
  return async (token) => {
    try {
      const { payload } = await jwtVerify(token, keys, expected)
      return callerOf(payload)
    } catch (err) {
      if (isRefusal(err)) return null
      throw new QuotaError(
        'QUOTA_KEYS_UNAVAILABLE',
        'the keys of the token issuer cannot be read',
        {
          cause: err,
        },
      )
    }
  }
}

/** Everything that jose finds wrong with a token; what is left is about reaching the keys. */
function isRefusal(err: unknown): boolean {
  if (err instanceof errors.JWKSTimeout || err instanceof errors.JWKSInvalid) return false
  const isGeneric = err instanceof errors.JOSEError && err.code === 'ERR_JOSE_GENERIC'
  return err instanceof errors.JOSEError && !isGeneric
}

function callerOf(payload: JWTPayload): Caller {
  const { scope, scp, quota_domains: domains } = payload
  const scopes = typeof scope === 'string' ? scope.split(' ') : textsOf(scp)
  return {
    actor: `oidc:${String(payload.sub)}`.slice(0, ACTOR_CHARS_MAX),
    scopes: scopes.filter(isScope),
    // A claim of another shape grants no domain, rather than all.
    domains: domains === undefined ? null : textsOf(domains),
  }
}

function textsOf(value: unknown): readonly string[] {
  return Array.isArray(value) ? value.filter((part) => typeof part === 'string') : []
}
