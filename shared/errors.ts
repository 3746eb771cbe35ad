/** The only place where error codes exist: the HTTP status that each becomes, and whether trying again can help. */
const ERRORS = {
  QUOTA_INVALID_INPUT: { status: 400, retryable: false },
  QUOTA_UNAUTHENTICATED: { status: 401, retryable: false },
  QUOTA_FORBIDDEN: { status: 403, retryable: false },
  QUOTA_IDENTITY_MISSING: { status: 403, retryable: false },
  QUOTA_DOMAIN_NOT_FOUND: { status: 404, retryable: false },
  QUOTA_POLICY_NOT_FOUND: { status: 404, retryable: false },
  QUOTA_REGION_NOT_FOUND: { status: 404, retryable: false },
  QUOTA_ACTION_NOT_FOUND: { status: 404, retryable: false },
  QUOTA_REVISION_NOT_FOUND: { status: 404, retryable: false },
  QUOTA_TOKEN_NOT_FOUND: { status: 404, retryable: false },
  QUOTA_ALREADY_EXISTS: { status: 409, retryable: false },
  QUOTA_REGION_STATE: { status: 409, retryable: false },
  QUOTA_IN_USE: { status: 409, retryable: false },
  QUOTA_EPOCH_OPEN: { status: 409, retryable: true },
  QUOTA_STALE_EPOCH: { status: 409, retryable: false },
  QUOTA_FENCED: { status: 409, retryable: true },
  QUOTA_POLICY_STALE: { status: 409, retryable: true },
  QUOTA_ANSWER_NOT_KEPT: { status: 409, retryable: false },
  QUOTA_KEY_REUSED: { status: 422, retryable: false },
  QUOTA_REVISION_CONFLICT: { status: 412, retryable: false },
  QUOTA_PRECONDITION_REQUIRED: { status: 428, retryable: false },
  QUOTA_TOO_MANY_REQUESTS: { status: 429, retryable: true },
  QUOTA_OVERLOADED: { status: 503, retryable: true },
  QUOTA_STORE_UNAVAILABLE: { status: 503, retryable: true },
  QUOTA_BUS_UNAVAILABLE: { status: 503, retryable: true },
  QUOTA_DATABASE_UNAVAILABLE: { status: 503, retryable: true },
  QUOTA_KEYS_UNAVAILABLE: { status: 503, retryable: true },
} as const satisfies Record<string, { status: number; retryable: boolean }>

export type ErrorCode = keyof typeof ERRORS

/** One thing wrong with an input: the field's path, what is wrong, and how to mend it. */
export interface InputProblem {
  readonly field: string
  readonly message: string
  readonly fix?: string
}

/**
 * An operational failure. Callers decide by `code` or `retryable`, never by the message, which says what was
 * attempted and on what, and holds no secret.
 */
export class QuotaError extends Error {
  override readonly name = 'QuotaError'
  readonly code: ErrorCode
  readonly problems: readonly InputProblem[]

  constructor(
    code: ErrorCode,
    message: string,
    options: { readonly cause?: unknown; readonly problems?: readonly InputProblem[] } = {},
  ) {
    super(message, { cause: options.cause })
    this.code = code
    this.problems = options.problems ?? []
  }

  get status(): number {
    return ERRORS[this.code].status
  }

  get retryable(): boolean {
    return ERRORS[this.code].retryable
  }
}

/** True for a `QuotaError` of that code. */
export function isQuotaError(err: unknown, code?: ErrorCode): err is QuotaError {
  return err instanceof QuotaError && (code === undefined || err.code === code)
}
