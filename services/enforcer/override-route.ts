/**
 * Routes of descriptors that bring their own numbers, as Envoy's `limit` override does.
 *
 * No daemon knows such a limit, so no loans are made for it: a region admits its own part of the number and no more.
 * That part is the smallest that the region has of any limit in the domain. For each region it is then at most its
 * part of any one of them, and the parts of one limit sum to no more than all of it; so do these, in every fixed
 * window, without anyone having agreed on them.
 */
import { createHash } from 'node:crypto'
import { counterId, counterName, slotGroup } from '../../shared/core/counter-id.ts'
import type { Descriptor } from '../../shared/core/descriptor.ts'
import type { RegionLimit, RegionPolicy } from '../../shared/core/policy.ts'
import { matchPolicy, type PolicyIndex } from '../../shared/core/policy-index.ts'
import { TOKENS_MAX } from '../../shared/core/units.ts'
import { decisionTemplate } from '../../shared/protocol/check-answer.ts'
import { limitWords } from '../../shared/protocol/limit-words.ts'
import type { LimitOverride } from '../../shared/protocol/rls-request.ts'
import type { EnforcerMetrics } from './metrics.ts'
import { UNMATCHED } from './route.ts'
import type { Route, RouteTable } from './routes.ts'

/** The numbers to enforce, and the present by this host's clock. */
export interface RouteOverride extends LimitOverride {
  readonly wallMs: number
}

/** Windows of the reference server, which knows no calendar. */
const WINDOW_MS: Readonly<Record<LimitOverride['unit'], number>> = {
  SECOND: 1_000,
  MINUTE: 60_000,
  HOUR: 3_600_000,
  DAY: 86_400_000,
  MONTH: 30 * 86_400_000,
  YEAR: 365 * 86_400_000,
}

/** Never the id of a limit in a policy: those are counted from 1. */
const OVERRIDE_LIMIT_ID = TOKENS_MAX

/** This host's clock and that of Redis differ by less, or nothing here works. */
const CLOCK_MARGIN_MS = 60_000

/** Where `asked` leads. A domain without any policy has no limits, and an override does not change that. */
export function routeOf(
  context: { readonly routes: RouteTable; readonly metrics: Pick<EnforcerMetrics, 'cellsOf'> },
  index: PolicyIndex,
  domain: string,
  asked: {
    readonly descriptor: Descriptor
    readonly override: RouteOverride | null
    readonly requestId: string | undefined
  },
): Route {
  const { descriptor, override, requestId } = asked
  const part = override === null ? null : regionPart(index, domain, override)
  if (override === null || part === null) {
    return context.routes.find(index, domain, descriptor, requestId)
  }
  const policy = overridePolicy(part, matchPolicy(index, domain, descriptor), override)
  const [limit] = policy.limits
  const group = slotGroup({ domain, entries: descriptor.entries })
  // The domain is part of the name, because all domains share the limit's id; so is the unit, but not the number,
  // for a changed number must not forget what was spent.
  const named = [{ key: domain, value: override.unit }, ...descriptor.entries]
  const counter = counterId({
    group,
    limitId: OVERRIDE_LIMIT_ID,
    usageEpoch: 0,
    name: counterName(named, (text) => createHash('sha256').update(text).digest('base64url')),
  })
  if (limit === undefined) return context.routes.find(index, domain, descriptor, requestId)
  const enforced = {
    limit,
    template: decisionTemplate(policy, limit),
    words: limitWords(policy, limit),
    onStoreFailure: policy.onStoreFailure,
    cells: context.metrics.cellsOf(`${domain}/${policy.name}`),
  }
  const set = { limits: [enforced], targets: [{ limit, counter }], denying: [] }
  return { ...UNMATCHED, ...set, group, matched: true }
}

interface RegionPart {
  readonly policy: RegionPolicy
  readonly limit: RegionLimit
  readonly home: number
}

/** The smallest part that this region has of a limit in the domain; null without any. */
function regionPart(
  index: PolicyIndex,
  domain: string,
  override: RouteOverride,
): RegionPart | null {
  let smallest: RegionPart | null = null
  for (const policy of index.domains.get(domain)?.policies ?? []) {
    for (const limit of policy.limits) {
      const home = settledHome(limit, override)
      if (smallest === null || home < smallest.home) smallest = { policy, limit, home }
    }
  }
  return smallest
}

/**
 * The region's part of `limit`, or its part before the last change while a window that began before that may still
 * run: what grew here may have been spent in that window where it shrank.
 */
function settledHome(
  { home, previous, changedAtUs }: RegionLimit,
  override: RouteOverride,
): number {
  if (previous === null) return home
  const ageMs = override.wallMs - changedAtUs / 1_000
  const isSettled = ageMs >= WINDOW_MS[override.unit] + CLOCK_MARGIN_MS
  return isSettled ? home : Math.min(home, previous.home)
}

function overridePolicy(
  { policy, limit, home }: RegionPart,
  matched: RegionPolicy | null,
  { requestsPerUnit, unit }: RouteOverride,
): RegionPolicy {
  return {
    ...policy,
    name: 'override',
    mode: 'strict',
    relaxedPercent: null,
    shadow: false,
    unlimited: false,
    onStoreFailure: matched?.onStoreFailure ?? 'allow',
    limits: [
      {
        ...limit,
        id: OVERRIDE_LIMIT_ID,
        name: 'override',
        algorithm: 'fixed_window',
        calendar: null,
        shards: 1,
        leases: 'off',
        candidateOf: null,
        capacity: requestsPerUnit,
        windowMs: WINDOW_MS[unit],
        burst: requestsPerUnit,
        usageEpoch: 0,
        home,
        version: 1,
        previous: null,
        changedAtUs: 0,
        idle: { tokens: 0, atUs: 0 },
      },
    ],
  }
}
