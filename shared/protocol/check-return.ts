/** The bodies of `POST /v1/refund` and `POST /v1/release`: a check that was admitted, by its id. */
import { type CheckRequest, invalidCheck, parseCheckRequest } from './check-request.ts'

export type NamedCheck = CheckRequest & { readonly requestId: string }

/** A check to refund; `admittedAtUs` is what its answer said. */
export type RefundRequest = NamedCheck & { readonly admittedAtUs: number }

/** Throws QUOTA_INVALID_INPUT. The domain, descriptors and cost are those of the check. */
export function parseRefund(body: unknown): RefundRequest {
  const { admittedAtUs, ...rest } = membersOf(body)
  const check = named(parseCheckRequest(rest))
  if (typeof admittedAtUs === 'number' && Number.isSafeInteger(admittedAtUs) && admittedAtUs > 0) {
    return { ...check, admittedAtUs }
  }
  const message =
    admittedAtUs === undefined ? 'is missing' : 'must be an instant in microseconds since 1970'
  const fix = 'send admittedAtUs of the answer to the check; a check with a requestId is told it'
  throw invalidCheck([{ field: 'admittedAtUs', message, fix }])
}

/** As `parseRefund`; a release frees whatever the request holds, so a cost means nothing. */
export function parseRelease(body: unknown): NamedCheck {
  return named(parseCheckRequest(body))
}

function membersOf(body: unknown): Readonly<Record<string, unknown>> {
  if (typeof body === 'object' && body !== null && !Array.isArray(body)) return { ...body }
  const fix = 'send the check again, with its requestId'
  throw invalidCheck([{ field: 'body', message: 'must be a JSON object', fix }])
}

function named(check: CheckRequest): NamedCheck {
  const { requestId } = check
  if (requestId !== undefined) return { ...check, requestId }
  const fix = 'send the requestId of the check'
  throw invalidCheck([{ field: 'requestId', message: 'is missing', fix }])
}
