/**
 * Decides a check.
 *
 * Each descriptor leads to the limits of one policy. The parts of a request (`parts.ts`) are asked in its order;
 * when one denies, the tokens that earlier parts admitted are given back and later parts are only read, so a denial
 * by one limit leaves the others as they were.
 */
import type { PolicyIndex } from '../../shared/core/policy-index.ts'
import { QuotaError } from '../../shared/errors.ts'
import { countDecision } from './metrics.ts'
import { type AsideDescriptor, type Ask, type SplitAsk, singlePart, splitAsk } from './parts.ts'
import {
  type DecideContext,
  type Decided,
  decidedByStore,
  decideGroup,
  denialsOf,
  type GroupPart,
  type GroupResult,
  giveBackGroup,
  readGroup,
} from './slot-group.ts'
import { evaluateWatches, type Watched } from './watch.ts'

/** The outcome of a check, its decisions in the order of the request. */
export interface Verdict {
  readonly allowed: boolean
  /** Highest policy revision that this enforcer applies. */
  readonly revision: number
  readonly degraded: boolean
  readonly decided: readonly Decided[]
  /** What is watched beside the check and does not change its answer. */
  readonly watched: readonly Watched[]
  /** Positions of the descriptors that are unlimited. */
  readonly unlimited: readonly number[]
  /** True when no policy governs any descriptor. */
  readonly unmatched: boolean
  /** When the store admitted the check, by Redis TIME; the earliest of several parts. Null where it did not. */
  readonly admittedAtUs: number | null
}

/**
 * The verdict on `ask`.
 *
 * What no policy governs, what is unlimited and what denies all asks no store, so it alone is decided by the policies
 * last polled: a change of that takes effect with the next poll, while any other does with the next check.
 *
 * Throws QUOTA_STORE_UNAVAILABLE while no policies are known: without them nothing says which limits there are
 * or what an operator wants in an outage, so any answer would be made up. Once they are known an outage never
 * throws. QUOTA_OVERLOADED passes through, with nothing spent.
 */
export async function decide(context: DecideContext, ask: Ask): Promise<Verdict> {
  const leased = decideAtOnce(context, ask)
  if (leased !== null) return leased
  const index = context.policies.current()
  if (index === null) {
    throw new QuotaError('QUOTA_STORE_UNAVAILABLE', 'no policies have been read from Redis yet')
  }
  const single = singlePart(context, index, ask)
  if (single !== null) return conclude(context, [await decideGroup(context, single, ask.cost)])
  const { parts, aside } = splitAsk(context, index, ask)
  const [only] = parts
  if (aside.length > 0) return await decideBesides(context, { ask, index, parts, aside })
  const results =
    only !== undefined && parts.length === 1
      ? [await decideGroup(context, only, only.cost)]
      : await decideGroups(context, parts)
  return conclude(context, results)
}

/**
 * The verdict on a check of one descriptor whose limits are all leased; null where more is needed.
 *
 * Neither waits nor asks: it is what makes hot keys cheap.
 */
export function decideAtOnce(context: DecideContext, ask: Ask): Verdict | null {
  const { leases } = context
  if (leases === undefined || leases.size === 0 || ask.terms !== undefined) return null
  const [descriptor] = ask.descriptors
  const index = context.policies.current()
  if (index === null || descriptor === undefined || ask.descriptors.length > 1) return null
  const route = context.routes.find(index, ask.domain, descriptor)
  if (route.denying.length > 0 || route.watches.length > 0 || route.unlimited) return null
  const { group, targets } = route
  const answer = leases.take({ group, targets, cost: ask.cost }, index.version)
  if (answer === null) return null
  const routed = [{ position: 0, descriptor, override: null, route }]
  const { domain, cost, requestId } = ask
  const part = { domain, index, group, cost, requestId, routed }
  return conclude(context, [decidedByStore(part, answer)])
}

interface SplitCheck extends SplitAsk {
  readonly ask: Ask
  readonly index: PolicyIndex
}

/** A check that not only the store decides: something denies all, is unlimited, or is watched beside it. */
async function decideBesides(context: DecideContext, check: SplitCheck): Promise<Verdict> {
  const { ask, index, parts, aside } = check
  const denied = denialsOf(aside)
  const results =
    denied.length === 0
      ? await decideGroups(context, parts)
      : [
          { allowed: false, decided: denied, answered: null },
          ...(await Promise.all(parts.map((part) => readGroup(context, part, part.cost)))),
        ]
  const verdict = conclude(context, results, aside)
  const { decided } = verdict
  const { domain, requestId } = ask
  const watched = await evaluateWatches(context, { domain, index, requestId, aside, decided })
  return { ...verdict, watched }
}

async function decideGroups(
  context: DecideContext,
  parts: readonly GroupPart[],
): Promise<readonly GroupResult[]> {
  const admitted: { readonly result: GroupResult; readonly cost: number }[] = []
  const giveAllBack = (): Promise<GroupResult[]> =>
    Promise.all(admitted.map(({ result, cost }) => giveBackGroup(context, result, cost)))
  for (const [position, part] of parts.entries()) {
    const result = await decideGroup(context, part, part.cost).catch(async (err: unknown) => {
      await giveAllBack()
      throw err
    })
    if (!result.allowed) {
      const later = parts.slice(position + 1)
      const [returned, read] = await Promise.all([
        giveAllBack(),
        Promise.all(later.map((spared) => readGroup(context, spared, spared.cost))),
      ])
      return [...returned, result, ...read]
    }
    admitted.push({ result, cost: part.cost })
  }
  return admitted.map(({ result }) => result)
}

function conclude(
  context: DecideContext,
  results: readonly GroupResult[],
  aside: readonly AsideDescriptor[] = [],
): Verdict {
  const [only] = results
  const decided =
    only !== undefined && results.length === 1
      ? only.decided
      : results.flatMap((result) => result.decided).sort((a, b) => a.position - b.position)
  let degraded = false
  for (const { limit, decision, degraded: reason } of decided) {
    countDecision(limit.cells, decision, reason)
    degraded ||= reason !== null
  }
  const allowed = results.every((result) => result.allowed)
  const unlimited = aside.filter(({ route }) => route.unlimited).map(({ position }) => position)
  const unmatched = decided.length === 0 && aside.length === 0
  if (unmatched) context.metrics.unmatchedChecks.count++
  context.metrics.checks[allowed ? 'allowed' : 'denied'].count++
  const revision = context.policies.current()?.revision ?? 0
  const admittedAtUs = allowed ? earliest(results) : null
  const watched: readonly Watched[] = []
  return { allowed, revision, degraded, decided, watched, unlimited, unmatched, admittedAtUs }
}

/** A refund by it is then never more than the store would give back for any part. */
function earliest(results: readonly GroupResult[]): number | null {
  let earliestUs: number | null = null
  for (const { answered } of results) {
    if (answered !== null) earliestUs = Math.min(earliestUs ?? answered.atUs, answered.atUs)
  }
  return earliestUs
}
