/** The body of `POST /v1/check/batch`, and an item of its answer. */
import { invalidCheck } from './check-request.ts'

/** Checks in one batch. One that is larger holds its caller up for the slowest of many; several run side by side. */
export const BATCH_CHECKS_MAX = 128

/** The checks of `body`, not looked at yet. Throws QUOTA_INVALID_INPUT when it holds none or too many. */
export function parseBatch(body: unknown): readonly unknown[] {
  const isObject = typeof body === 'object' && body !== null && !Array.isArray(body)
  const fix = `send {"checks":[…]} with 1 to ${BATCH_CHECKS_MAX} checks`
  if (!isObject) throw invalidCheck([{ field: 'body', message: 'must be a JSON object', fix }])
  for (const name of Object.keys(body)) {
    if (name === 'checks') continue
    throw invalidCheck([{ field: name, message: 'is not a known field', fix }])
  }
  const checks: unknown = 'checks' in body ? body.checks : undefined
  if (!Array.isArray(checks) || checks.length === 0 || checks.length > BATCH_CHECKS_MAX) {
    const message = `must be an array of 1 to ${BATCH_CHECKS_MAX} checks`
    throw invalidCheck([{ field: 'checks', message, fix }])
  }
  return checks
}

/** `json` is the JSON of a `CheckAnswer` under status 200, and of a problem under any other. */
export function encodeBatchItem(status: number, json: string): string {
  return status === 200
    ? `{"status":200,"answer":${json}}`
    : `{"status":${status},"problem":${json}}`
}
