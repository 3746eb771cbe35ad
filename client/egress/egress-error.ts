export type EgressErrorCode =
  /** As many callers wait as may wait; nothing was sent. */
  | 'EGRESS_QUEUE_FULL'
  /** The cost can never be let through; nothing was sent. */
  | 'EGRESS_COST'
  /** The global quota does not let the call through in time; nothing was sent. */
  | 'EGRESS_QUOTA'

/** Why a call was not sent. */
export class EgressError extends Error {
  override readonly name = 'EgressError'
  readonly code: EgressErrorCode

  constructor(code: EgressErrorCode, message: string) {
    super(message)
    this.code = code
  }
}
