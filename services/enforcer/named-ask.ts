import { randomBytes } from 'node:crypto'
import type { CheckRequest } from '../../shared/protocol/check-request.ts'

/** A check with an id, its caller's or one of ours. */
export interface NamedAsk {
  readonly ask: CheckRequest & { readonly requestId: string }
  readonly isCallersId: boolean
}

/** Nobody can guess the ids of another process, and no two processes give the same. */
const PREFIX = randomBytes(12).toString('base64url')
let asks = 0

/** `check` under the id that it came with, or under a new one. */
export function nameAsk(check: CheckRequest): NamedAsk {
  const { domain, descriptors, cost, requestId } = check
  if (requestId !== undefined) {
    return { ask: { domain, descriptors, cost, requestId }, isCallersId: true }
  }
  asks++
  return { ask: { domain, descriptors, cost, requestId: `${PREFIX}-${asks}` }, isCallersId: false }
}
