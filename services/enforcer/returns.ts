/** Gives back what an admitted check took: refunds of tokens, releases of what a request holds. */
import type { CheckTarget } from '../../shared/core/ports.ts'
import { isQuotaError, QuotaError } from '../../shared/errors.ts'
import type { NamedCheck, RefundRequest } from '../../shared/protocol/check-return.ts'
import { splitAsk } from './parts.ts'
import {
  type DecideContext,
  type GroupPart,
  REROUTES_MAX,
  reroute,
  targetsOf,
} from './slot-group.ts'

export type RefundOutcome = 'refunded' | 'repeated' | 'too_late' | 'unmatched'

/** What became of one limit of the check. */
export interface Returned {
  readonly policy: string
  readonly limitName: string
  readonly descriptor: number
  /** Tokens that the limit has again; a refund says all of the cost or nothing. */
  readonly tokens: number
}

/**
 * Refunds a check, once for each id however often it is asked for.
 *
 * Throws QUOTA_STORE_UNAVAILABLE when Redis does not answer; asking again is safe then, for a part that was refunded
 * before is not refunded again. `refunded` when at least one slot group did it this time.
 */
export async function refundCheck(
  context: DecideContext,
  request: RefundRequest,
): Promise<{ readonly outcome: RefundOutcome; readonly limits: readonly Returned[] }> {
  const outcomes = new Set<RefundOutcome>()
  const limits = await returnParts(context, request, async (part, targets) => {
    const { group, index } = part
    const check = { group, targets, cost: request.cost, requestId: request.requestId }
    const answer = await context.store.refund(check, index.version, request.admittedAtUs)
    outcomes.add(answer.outcome)
    return answer.credited.map((isCredited) => (isCredited ? request.cost : 0))
  })
  const order: readonly RefundOutcome[] = ['refunded', 'repeated', 'too_late']
  return { outcome: order.find((outcome) => outcomes.has(outcome)) ?? 'unmatched', limits }
}

/**
 * Frees what the request holds of concurrency limits; idempotent. Throws as `refundCheck`.
 *
 * What is watched is freed as well: a shadow would otherwise be full of holders that left. It is not refunded, for
 * nobody remembers whether it had admitted a check; who holds something is remembered.
 */
export async function releaseCheck(
  context: DecideContext,
  request: NamedCheck,
): Promise<readonly Returned[]> {
  const release: ReturnPart = async (part, targets) => {
    const { group, index } = part
    const check = { group, targets, cost: request.cost, requestId: request.requestId }
    return (await context.store.release(check, index.version)).released
  }
  const watched = watchedParts(context, request).map(async (part) => {
    await release(part, targetsOf(part)).catch((err: unknown) => {
      // Changed policies, an outage: the longest hold ends it. What is only watched fails no answer.
      if (!isQuotaError(err)) throw err
    })
  })
  const [released] = await Promise.all([returnParts(context, request, release), ...watched])
  return released
}

/** What is watched beside the request and counts holders. */
function watchedParts(context: DecideContext, request: NamedCheck): readonly GroupPart[] {
  const index = context.policies.current()
  if (index === null) return []
  const { domain, cost, requestId } = request
  return splitAsk(context, index, request).aside.flatMap((aside) =>
    aside.route.watches
      .filter(({ limits }) => limits.some(({ limit }) => limit.algorithm === 'concurrency'))
      .map((watch) => {
        const routed = [{ ...aside, route: { ...aside.route, ...watch } }]
        return { domain, index, group: aside.route.group, cost, requestId, routed }
      }),
  )
}

type ReturnPart = (part: GroupPart, targets: readonly CheckTarget[]) => Promise<readonly number[]>

async function returnParts(
  context: DecideContext,
  request: NamedCheck,
  give: ReturnPart,
): Promise<readonly Returned[]> {
  const index = context.policies.current()
  if (index === null) {
    throw new QuotaError('QUOTA_STORE_UNAVAILABLE', 'no policies have been read from Redis yet')
  }
  const { parts } = splitAsk(context, index, request)
  const returned = await Promise.all(parts.map((part) => returnPart(context, part, give)))
  return returned.flat().sort((a, b) => a.descriptor - b.descriptor)
}

/** Under the newest policies: a limit that is gone has nothing to give back to. */
async function returnPart(
  context: DecideContext,
  part: GroupPart,
  give: ReturnPart,
): Promise<readonly Returned[]> {
  let current = part
  for (let reroutes = 0; ; reroutes++) {
    const targets = targetsOf(current)
    if (targets.length === 0) return []
    try {
      return describe(current, await give(current, targets))
    } catch (err) {
      if (!isQuotaError(err, 'QUOTA_POLICY_STALE') || reroutes === REROUTES_MAX) throw err
      const rerouted = await reroute(context, current)
      if (rerouted === null) throw err
      current = rerouted
    }
  }
}

function describe(part: GroupPart, tokens: readonly number[]): readonly Returned[] {
  const limits = part.routed.flatMap(({ position, route }) =>
    route.limits.map(({ limit, words }) => ({ position, limit, words })),
  )
  return limits.map(({ position, limit, words }, index) => ({
    policy: `${part.domain}/${words.policy}`,
    limitName: limit.name,
    descriptor: position,
    tokens: tokens[index] ?? 0,
  }))
}
