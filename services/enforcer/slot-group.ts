/**
 * One slot group's part of a check: the limits that the store decides at once, all or none.
 *
 * What the store cannot decide is decided by each policy's `onStoreFailure`, so nothing here throws in an outage.
 */
import { assert } from '../../shared/core/assert.ts'
import {
  type Decision,
  decideFromRead,
  decideWithoutStore,
  withGivenBack,
} from '../../shared/core/decision.ts'
import type { Descriptor } from '../../shared/core/descriptor.ts'
import type { PolicyIndex } from '../../shared/core/policy-index.ts'
import type { CheckAnswer, CheckStore, CheckTarget } from '../../shared/core/ports.ts'
import { isQuotaError, type QuotaError } from '../../shared/errors.ts'
import type { DeniedKeys } from './denied-keys.ts'
import type { LeaseBook } from './lease-book.ts'
import type { LocalLimits } from './local-limits.ts'
import type { DegradedReason, EnforcerMetrics } from './metrics.ts'
import { type RouteOverride, routeOf } from './override-route.ts'
import type { PolicyCache } from './policy-cache.ts'
import { DENY_ALL, type EnforcedLimit, type Route } from './route.ts'
import type { RouteTable } from './routes.ts'
import type { StoreGuard } from './store-guard.ts'

export interface DecideContext {
  readonly store: CheckStore
  readonly policies: Pick<PolicyCache, 'current' | 'refresh'> &
    Partial<Pick<PolicyCache, 'applied'>>
  readonly routes: RouteTable
  readonly guard: StoreGuard
  readonly metrics: EnforcerMetrics
  /** Without it every check asks the store. */
  readonly leases?: LeaseBook
  /** Without it every denial asks the store. */
  readonly denied?: DeniedKeys
  /** Decides for policies that want it while the store does not; without it they deny. */
  readonly local?: LocalLimits
}

/** A descriptor, its position in the request, and where it leads. */
export interface RoutedDescriptor {
  readonly position: number
  readonly descriptor: Descriptor
  readonly override: RouteOverride | null
  readonly route: Route
}

/** Descriptors of one request that are decided together, routed under the policies of `index`. */
export interface GroupPart {
  readonly domain: string
  readonly index: PolicyIndex
  readonly group: number
  readonly cost: number
  readonly requestId: string | undefined
  readonly routed: readonly RoutedDescriptor[]
}

/** What one limit says, and which descriptor of the request it was asked for. */
export interface Decided {
  readonly limit: EnforcedLimit
  readonly position: number
  readonly decision: Decision
  readonly degraded: DegradedReason | null
}

export interface GroupResult {
  readonly allowed: boolean
  readonly decided: readonly Decided[]
  /** What the store answered to `part`, possibly rerouted since it was asked; null when it did not decide. */
  readonly answered: { readonly part: GroupPart; readonly atUs: number } | null
}

/**
 * Reads of newer policies that one check waits for. One is enough unless policies change again meanwhile, and hundreds of
 * changes in a second can outrun a check some times in a row; if so many reads are not enough, the region's own records
 * disagree, and waiting longer helps nobody.
 */
export const REROUTES_MAX = 16

/**
 * Decides a group; cost 0 reads. Policies that turn out stale are read again first.
 *
 * One callback behind the store's promise: an async function for each step would cost more than the step.
 */
export function decideGroup(
  context: DecideContext,
  part: GroupPart,
  cost: number,
): Promise<GroupResult> {
  return askStore(context, part, cost).then((answer) =>
    typeof answer === 'object'
      ? decidedByStore(part, answer)
      : decideOtherwise(context, part, { cost, answer }),
  )
}

/** Decides what the store did not: by newer policies, or as each policy wants it. */
export async function decideOtherwise(
  context: DecideContext,
  part: GroupPart,
  asked: { readonly cost: number; readonly answer: DegradedReason },
): Promise<GroupResult> {
  let current = part
  let answer: CheckAnswer | DegradedReason = asked.answer
  for (let reroutes = 0; ; reroutes++) {
    if (typeof answer === 'object') return decidedByStore(current, answer)
    if (answer !== 'policy_stale' || reroutes === REROUTES_MAX) {
      return decidedWithoutStore(context, { part: current, cost: asked.cost }, answer)
    }
    const rerouted = await reroute(context, current)
    if (rerouted === null)
      return decidedWithoutStore(context, { part: current, cost: asked.cost }, 'store_unavailable')
    const denied = denialsOf(rerouted.routed)
    if (denied.length > 0) return { allowed: false, decided: denied, answered: null }
    if (rerouted.routed.every(({ route }) => route.targets.length === 0)) {
      return { allowed: true, decided: [], answered: null }
    }
    current = rerouted
    answer = await askStore(context, current, asked.cost)
  }
}

/** What limits of capacity 0 say; none of them needs the store. */
export function denialsOf(routed: readonly RoutedDescriptor[]): readonly Decided[] {
  return routed.flatMap(({ position, route }) =>
    route.denying.map((limit) => ({ limit, position, decision: DENY_ALL, degraded: null })),
  )
}

/** Reads a group that another group's denial has spared, and says what it would have answered to `cost`. */
export async function readGroup(
  context: DecideContext,
  part: GroupPart,
  cost: number,
): Promise<GroupResult> {
  const result = await decideGroup(context, part, 0)
  const decided = result.decided.map((one) => ({
    ...one,
    decision: decideFromRead(one.limit.limit, one.decision, cost),
  }))
  return { ...result, decided }
}

/**
 * Gives back what `result` took. On failure the tokens stay spent until they refill: less is admitted than
 * could be, never more.
 */
export async function giveBackGroup(
  context: DecideContext,
  result: GroupResult,
  cost: number,
): Promise<GroupResult> {
  if (result.answered === null || cost === 0) return result
  const { part, atUs } = result.answered
  const isDone = await giveBack(context, part, { cost, atUs })
  context.metrics.giveBacks[isDone ? 'done' : 'failed'].count++
  if (!isDone) return result
  const decided = result.decided.map((one) => ({
    ...one,
    decision: withGivenBack(one.limit.limit, one.decision, cost),
  }))
  return { ...result, decided }
}

async function giveBack(
  context: DecideContext,
  part: GroupPart,
  taken: { readonly cost: number; readonly atUs: number },
): Promise<boolean> {
  const charged = new Set(targetsOf(part).map((target) => target.counter))
  let current: GroupPart | null = part
  for (let reroutes = 0; current !== null && reroutes <= REROUTES_MAX; reroutes++) {
    // Under newer policies a limit may be gone, or others may have joined that were never charged.
    const targets = targetsOf(current).filter((target) => charged.has(target.counter))
    if (targets.length === 0) return true
    try {
      const { group, requestId } = current
      const check = { group, targets, cost: taken.cost, requestId }
      await context.store.giveBack(check, current.index.version, taken.atUs)
      return true
    } catch (err) {
      if (!isQuotaError(err)) throw err
      if (err.code !== 'QUOTA_POLICY_STALE') return false
      current = await reroute(context, current)
    }
  }
  return false
}

/** The answer of leases, of denials that stay true, else of the store, or why there is none. Rejects with what is no outage of the store. */
export function askStore(
  context: DecideContext,
  part: GroupPart,
  cost: number,
): Promise<CheckAnswer | DegradedReason> {
  const { guard, store, leases, denied } = context
  const { group, requestId } = part
  const check = { group, targets: targetsOf(part), cost, requestId }
  const leased = leases?.take(check, part.index.version) ?? null
  if (leased !== null) return Promise.resolve(leased)
  const kept = denied?.take(check, part.index.version) ?? null
  if (kept !== null) return Promise.resolve(kept)
  const round = guard.enter()
  if (round === null) return Promise.resolve('store_skipped')
  leases?.watch(check, part.index.version)
  const asked = { version: part.index.version, sentMs: denied?.nowMs() ?? 0 }
  return store.check(check, part.index.version).then(
    (answer) => {
      guard.succeeded(round)
      if (answer.decisions[0]?.allowed === false) denied?.note(check, answer, asked)
      return answer
    },
    (err: unknown) => reasonOf(context, err, round),
  )
}

/** Why the store did not decide. Throws what is no outage of it. */
export function reasonOf(
  { guard, metrics }: DecideContext,
  err: unknown,
  round: number,
): DegradedReason {
  if (isQuotaError(err, 'QUOTA_POLICY_STALE')) {
    guard.succeeded(round)
    metrics.storeErrors.QUOTA_POLICY_STALE.count++
    return 'policy_stale'
  }
  guard.failed(round)
  if (!isQuotaError(err, 'QUOTA_STORE_UNAVAILABLE')) throw err
  metrics.storeErrors.QUOTA_STORE_UNAVAILABLE.count++
  if (isOutOfMemory(err)) metrics.storeErrors.OUT_OF_MEMORY.count++
  return 'store_unavailable'
}

/** `part` under the newest policies; null when they cannot be read, or its descriptors go ways of their own now. */
export async function reroute(context: DecideContext, part: GroupPart): Promise<GroupPart | null> {
  try {
    await context.policies.refresh()
  } catch (err) {
    if (isQuotaError(err, 'QUOTA_STORE_UNAVAILABLE')) return null
    throw err
  }
  const index = context.policies.current() ?? part.index
  const routed = part.routed.map((one) => ({
    ...one,
    route: routeOf(context, index, part.domain, { ...one, requestId: part.requestId }),
  }))
  const groups = new Set(
    routed.flatMap(({ route }) => (route.targets.length === 0 ? [] : [route.group])),
  )
  // Where the number of shards changed they may lead apart, and are no more decided at once.
  if (groups.size > 1) return null
  const [group = part.group] = groups
  return { ...part, group, index, routed }
}

export function targetsOf(part: GroupPart): readonly CheckTarget[] {
  const [only] = part.routed
  if (only !== undefined && part.routed.length === 1) return only.route.targets
  return part.routed.flatMap(({ route }) => route.targets)
}

/** A caller is never told of more than the limit, also where the mode would let it through. */
export function asNominal<D extends Decision>(decision: D, nominal: number | undefined): D {
  if (nominal === undefined || (decision.remaining ?? 0) <= nominal) return decision
  return { ...decision, remaining: nominal }
}

export function decidedByStore(part: GroupPart, answer: CheckAnswer): GroupResult {
  const decided: Decided[] = []
  let allowed = true
  for (const { position, route } of part.routed) {
    for (const limit of route.limits) {
      const said = answer.decisions[decided.length]
      assert(said !== undefined, 'the store decides every target')
      const decision = asNominal(said, limit.limit.nominal)
      allowed &&= decision.allowed
      decided.push({ limit, position, decision, degraded: null })
    }
  }
  return { allowed, decided, answered: { part, atUs: answer.atUs } }
}

function decidedWithoutStore(
  { local }: DecideContext,
  { part, cost }: { readonly part: GroupPart; readonly cost: number },
  degraded: DegradedReason,
): GroupResult {
  const all = part.routed.flatMap(({ position, route }) =>
    route.limits.map((limit, index) => ({ limit, position, target: route.targets[index] })),
  )
  const isLocal = (one: (typeof all)[number]): boolean =>
    local !== undefined && one.limit.onStoreFailure === 'local'
  const targets = all.filter(isLocal).flatMap(({ target }) => target ?? [])
  const denies = all.some((one) => !isLocal(one) && one.limit.onStoreFailure !== 'allow')
  // Where another limit denies already, those in memory spend nothing.
  const said = local?.decide(targets, denies ? 0 : cost).values()
  const decided = all.map((one) => ({
    limit: one.limit,
    position: one.position,
    decision:
      (isLocal(one) ? said?.next().value : undefined) ??
      decideWithoutStore(one.limit.onStoreFailure),
    degraded,
  }))
  const allowed = decided.every(({ decision }) => decision.allowed)
  return { allowed, decided, answered: null }
}

/** Redis refuses to write because its memory is full; scripts write nothing then. */
function isOutOfMemory({ cause }: QuotaError): boolean {
  return cause instanceof Error && /\bOOM\b/.test(cause.message)
}
