/**
 * Evaluates what is watched beside a check: policies in shadow and candidates of limits.
 *
 * After the check has been decided, because they spend what they would have spent had they been in force: a shadow
 * when the check was allowed, a candidate when every limit but the one it stands beside allowed it. Otherwise they
 * are only read. Each is asked on its own, so that none can change the answer or another one's count; what cannot be
 * evaluated is counted as unknown and left out.
 */
import { decideFromRead } from '../../shared/core/decision.ts'
import type { PolicyIndex } from '../../shared/core/policy-index.ts'
import { isQuotaError } from '../../shared/errors.ts'
import type { AsideDescriptor } from './parts.ts'
import { DENY_ALL, type Watch, type WatchKind } from './route.ts'
import { askStore, type DecideContext, type Decided } from './slot-group.ts'

/** What a watched limit would have said. */
export interface Watched extends Decided {
  readonly kind: WatchKind
}

export interface WatchedCheck {
  readonly domain: string
  readonly index: PolicyIndex
  readonly requestId: string | undefined
  readonly aside: readonly AsideDescriptor[]
  /** What was decided of the check. */
  readonly decided: readonly Decided[]
}

/** In the order of the descriptors. No outage rejects: an answer does not fail for what is only watched. */
export async function evaluateWatches(
  context: DecideContext,
  check: WatchedCheck,
): Promise<readonly Watched[]> {
  const evaluated = check.aside.flatMap((aside) =>
    aside.route.watches.map((watch) => evaluate(context, check, { aside, watch })),
  )
  return (await Promise.all(evaluated)).flat()
}

async function evaluate(
  context: DecideContext,
  check: WatchedCheck,
  { aside, watch }: { readonly aside: AsideDescriptor; readonly watch: Watch },
): Promise<readonly Watched[]> {
  const { position, cost } = aside
  const spends = watch.denying.length === 0 && isOthersAllowed(check.decided, { aside, watch })
  const denied = watch.denying.map((limit) => ({ limit, decision: DENY_ALL }))
  const read = await readTargets(context, check, { aside, watch, cost: spends ? cost : 0 })
  if (read === null) {
    watch.cells.unknown.count++
    return []
  }
  const asked = read.map(({ limit, decision }) => ({
    limit,
    decision: spends ? decision : decideFromRead(limit.limit, decision, cost),
  }))
  const all = [...denied, ...asked]
  watch.cells[all.every(({ decision }) => decision.allowed) ? 'allowed' : 'denied'].count++
  return all.map((one) => ({ ...one, kind: watch.kind, position, degraded: null }))
}

/** Whether the check would have come through, had `watch` been in force and allowed it. */
function isOthersAllowed(
  decided: readonly Decided[],
  { aside, watch }: { readonly aside: AsideDescriptor; readonly watch: Watch },
): boolean {
  return decided.every(
    ({ limit, position, decision }) =>
      decision.allowed || (position === aside.position && limit.limit.id === watch.inPlaceOf),
  )
}

async function readTargets(
  context: DecideContext,
  { domain, index, requestId }: WatchedCheck,
  asked: { readonly aside: AsideDescriptor; readonly watch: Watch; readonly cost: number },
) {
  const { aside, watch, cost } = asked
  if (watch.targets.length === 0) return []
  const { route } = aside
  const part = {
    domain,
    index,
    group: route.group,
    cost,
    requestId,
    routed: [{ ...aside, route: { ...route, ...watch } }],
  }
  const answer = await askStore(context, part, cost).catch((err: unknown) => {
    // Whatever keeps a watched limit from being asked must not fail the check; bugs are not hidden.
    if (isQuotaError(err)) return 'store_skipped' as const
    throw err
  })
  if (typeof answer === 'string') return null
  return watch.limits.flatMap((limit, at) => {
    const decision = answer.decisions[at]
    return decision === undefined ? [] : [{ limit, decision }]
  })
}
