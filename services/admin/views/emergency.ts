import type { StoredAction } from '../../../shared/postgres/emergency.ts'
import type { PolicyKey } from '../../../shared/postgres/policies.ts'
import type { EmergencyReply } from '../../../shared/protocol/emergency.ts'

/** An action as admin shows it at `nowMs`. */
export function emergencyReplyOf(
  action: StoredAction,
  { domain, name }: PolicyKey,
  nowMs: number,
): EmergencyReply {
  const { id, effect, split, reason, begunBy, begunAtMs, expiresAtMs } = action
  const { kind, ...rest } = effect
  const limit = 'limit' in rest && rest.limit !== null ? { limit: rest.limit } : {}
  const { limit: _limit, ...numbers } = { limit: null, ...rest }
  return {
    id,
    kind,
    domain,
    policy: name,
    ...numbers,
    ...limit,
    ...(split !== null && { split }),
    reason,
    begunBy,
    begunAt: new Date(begunAtMs).toISOString(),
    expiresAt: new Date(expiresAtMs).toISOString(),
    remainingSeconds: Math.max(0, Math.ceil((expiresAtMs - nowMs) / 1_000)),
  }
}
