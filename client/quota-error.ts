export type QuotaClientErrorCode =
  /** No enforcer answered in time; whether the check was counted is not known unless none could be reached. */
  | 'QUOTA_CLIENT_UNAVAILABLE'
  /** The enforcer refused what was sent; the message names the field and the fix. Sending it again is no use. */
  | 'QUOTA_CLIENT_INVALID'

/** Why there is no answer. A denial is no error. */
export class QuotaClientError extends Error {
  override readonly name = 'QuotaClientError'
  readonly code: QuotaClientErrorCode

  constructor(code: QuotaClientErrorCode, message: string, options?: { readonly cause?: unknown }) {
    super(message, options)
    this.code = code
  }
}
