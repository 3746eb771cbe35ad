/**
 * Decides a check.
 *
 * Each descriptor leads to the limits of one policy. Slot groups are asked in the order of the request; when one
 * denies, the tokens that earlier groups admitted are given back and later groups are only read, so a denial by
 * one limit leaves the others as they were.
 */
import type { PolicyIndex } from '../../shared/core/policy-index.ts'
import { QuotaError } from '../../shared/errors.ts'
import { type CheckRequest, invalidCheck } from '../../shared/protocol/check-request.ts'
import { countDecision } from './metrics.ts'
import {
  type DecideContext,
  type Decided,
  decideGroup,
  type GroupPart,
  type GroupResult,
  giveBackGroup,
  type RoutedDescriptor,
  readGroup,
} from './slot-group.ts'

/** The outcome of a check, its decisions in the order of the request. */
export interface Verdict {
  readonly allowed: boolean
  /** Highest policy revision that this enforcer applies. */
  readonly revision: number
  readonly degraded: boolean
  readonly decided: readonly Decided[]
  /** True when no policy governs any descriptor. */
  readonly unmatched: boolean
}

/**
 * The verdict on `request`.
 *
 * What no policy governs asks no store, so it alone is decided by the policies last polled: a policy that is the
 * first for a descriptor takes effect with the next poll, while any other change does with the next check.
 *
 * Throws QUOTA_STORE_UNAVAILABLE while no policies are known: without them nothing says which limits there are
 * or what an operator wants in an outage, so any answer would be made up. Once they are known an outage never
 * throws. QUOTA_OVERLOADED passes through, with nothing spent.
 */
export async function decide(context: DecideContext, request: CheckRequest): Promise<Verdict> {
  const index = context.policies.current()
  if (index === null) {
    throw new QuotaError('QUOTA_STORE_UNAVAILABLE', 'no policies have been read from Redis yet')
  }
  const routed = routeAll(context, index, request)
  const parts = splitByGroup(request.domain, index, routed)
  const [only] = parts
  const results =
    only !== undefined && parts.length === 1
      ? [await decideGroup(context, only, request.cost)]
      : await decideGroups(context, parts, request.cost)
  return conclude(context, results)
}

function routeAll(
  context: DecideContext,
  index: PolicyIndex,
  request: CheckRequest,
): readonly RoutedDescriptor[] {
  const routed: RoutedDescriptor[] = []
  for (const [position, descriptor] of request.descriptors.entries()) {
    const route = context.routes.find(index, request.domain, descriptor)
    const counter = route.targets[0]?.counter
    if (counter === undefined) {
      context.metrics.unmatchedDescriptors.count++
      continue
    }
    const twin = routed.find((earlier) => earlier.route.targets[0]?.counter === counter)
    if (twin !== undefined) throw repeated(position, twin.position)
    routed.push({ position, descriptor, route })
  }
  return routed
}

/** Counting it once or twice would both surprise someone; the caller says which with `cost`. */
function repeated(position: number, earlier: number): QuotaError {
  return invalidCheck([
    {
      field: `descriptors[${position}]`,
      message: `repeats descriptors[${earlier}]`,
      fix: 'send each descriptor once, and a higher cost to spend more',
    },
  ])
}

function splitByGroup(
  domain: string,
  index: PolicyIndex,
  routed: readonly RoutedDescriptor[],
): readonly GroupPart[] {
  const groups = new Map<number, RoutedDescriptor[]>()
  for (const one of routed) {
    const others = groups.get(one.route.group)
    if (others === undefined) groups.set(one.route.group, [one])
    else others.push(one)
  }
  return [...groups].map(([group, members]) => ({ domain, index, group, routed: members }))
}

async function decideGroups(
  context: DecideContext,
  parts: readonly GroupPart[],
  cost: number,
): Promise<readonly GroupResult[]> {
  const admitted: GroupResult[] = []
  const giveAllBack = (): Promise<GroupResult[]> =>
    Promise.all(admitted.map((result) => giveBackGroup(context, result, cost)))
  for (const [position, part] of parts.entries()) {
    const result = await decideGroup(context, part, cost).catch(async (err: unknown) => {
      await giveAllBack()
      throw err
    })
    if (!result.allowed) {
      const later = parts.slice(position + 1)
      const [returned, read] = await Promise.all([
        giveAllBack(),
        Promise.all(later.map((spared) => readGroup(context, spared, cost))),
      ])
      return [...returned, result, ...read]
    }
    admitted.push(result)
  }
  return admitted
}

function conclude(context: DecideContext, results: readonly GroupResult[]): Verdict {
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
  const unmatched = decided.length === 0
  if (unmatched) context.metrics.unmatchedChecks.count++
  context.metrics.checks[allowed ? 'allowed' : 'denied'].count++
  const revision = context.policies.current()?.revision ?? 0
  return { allowed, revision, degraded, decided, unmatched }
}
