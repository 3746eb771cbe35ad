import { createHash } from 'node:crypto'
import { countedEntries } from '../../shared/core/counted-entries.ts'
import { counterId, counterName, partName, slotGroup } from '../../shared/core/counter-id.ts'
import { partGroup, partOfRequest } from '../../shared/core/counter-parts.ts'
import type { Descriptor } from '../../shared/core/descriptor.ts'
import type { RegionOverride } from '../../shared/core/overrides.ts'
import type { RegionPolicy } from '../../shared/core/policy.ts'
import { matchPolicy, type PolicyIndex } from '../../shared/core/policy-index.ts'
import {
  type PolicyOverrides,
  policyOverrides,
  tenantLimit,
} from '../../shared/core/variant-index.ts'
import { decisionTemplate } from '../../shared/protocol/check-answer.ts'
import { limitWords } from '../../shared/protocol/limit-words.ts'
import { KeptRoutes } from './kept-routes.ts'
import type { PolicyCells } from './metrics.ts'
import {
  type EnforcedLimit,
  isPlain,
  type LimitSet,
  type Route,
  type RouteParts,
  type RoutePolicy,
  soleRouteOf,
  UNMATCHED,
  type Watch,
} from './route.ts'

export type { EnforcedLimit, Route } from './route.ts'

/** Finds routes and remembers them, within a bound and until the policies change. */
export class RouteTable {
  readonly #cellsOf: (policy: string) => PolicyCells
  readonly #enforced = new WeakMap<RegionPolicy, EnforcedPolicy>()
  #index: PolicyIndex | null = null
  readonly #kept = new KeptRoutes()

  constructor(cellsOf: (policy: string) => PolicyCells) {
    this.#cellsOf = cellsOf
  }

  /** Number of routes kept. */
  get size(): number {
    return this.#kept.size
  }

  /**
   * The route of `descriptor` under `index`; equal descriptors get the same object while both are kept. Where the key is
   * counted in parts it leads to the one of the request, which is always the same; without an id to the same as another
   * without.
   */
  find(index: PolicyIndex, domain: string, descriptor: Descriptor, requestId?: string): Route {
    const route = this.#find(index, domain, descriptor)
    return route.parts === null ? route : route.parts.routeOf(requestId ?? '')
  }

  #find(index: PolicyIndex, domain: string, descriptor: Descriptor): Route {
    if (index !== this.#index) {
      this.#index = index
      this.#kept.clear()
    }
    const kept = this.#kept.find(domain, descriptor)
    if (kept !== null) return kept
    const route = this.#build(index, domain, descriptor)
    this.#kept.keep(domain, descriptor, route)
    return route
  }

  #build(index: PolicyIndex, domain: string, descriptor: Descriptor): Route {
    const policy = matchPolicy(index, domain, descriptor)
    if (policy === null) return UNMATCHED
    const entries = countedEntries(policy.match, descriptor.entries)
    const whole = { group: slotGroup({ domain, entries }), name: counterName(entries, sha256) }
    const { shards = 1 } = policy.limits[0] ?? {}
    const build = (part: number): Route => this.#buildPart(policy, descriptor, { ...whole, part })
    const route = build(0)
    const isOne = shards === 1 || route.targets.length + route.watches.length === 0
    return isOne ? route : { ...route, parts: new LazyParts(shards, route, build) }
  }

  #buildPart(
    policy: RegionPolicy,
    descriptor: Descriptor,
    { part, ...whole }: { readonly group: number; readonly name: string; readonly part: number },
  ): Route {
    const group = partGroup(whole.group, part)
    const name = partName(whole.name, part)
    const setOf = (limits: readonly EnforcedLimit[]): LimitSet => limitSet(limits, { group, name })
    const enforced = this.#enforce(policy)
    const override = overrideOf(enforced, descriptor)
    const all = override === undefined ? enforced.limits : tenantLimits(enforced, override)
    const kind = override?.rule?.kind
    const matched = { ...UNMATCHED, group, matched: true, policy: enforced.route }
    if (policy.unlimited || kind === 'unlimited') return { ...matched, unlimited: true }
    const live = liveOf(all)
    if (kind === 'deny' && !policy.shadow) return { ...matched, denying: live }
    const watches = watchesOf(policy, all, setOf)
    const route = { ...matched, ...setOf(policy.shadow ? [] : live), watches }
    return { ...route, sole: isPlain(route) ? soleRouteOf(route) : null }
  }

  #enforce(policy: RegionPolicy): EnforcedPolicy {
    const known = this.#enforced.get(policy)
    if (known !== undefined) return known
    const cells = this.#cellsOf(`${policy.domain}/${policy.name}`)
    const limits = policy.limits.map((limit) => ({
      limit,
      template: decisionTemplate(policy, limit),
      words: limitWords(policy, limit),
      onStoreFailure: policy.onStoreFailure,
      cells,
    }))
    const { name, replaces = [] } = policy
    const route = { name, replaces: replaces.filter((other) => other !== name) }
    const enforced = { policy, route, limits, overrides: policyOverrides(policy) }
    this.#enforced.set(policy, enforced)
    return enforced
  }
}

/** Routes to the parts of one key, each built when a request first goes there. */
class LazyParts implements RouteParts {
  readonly count: number
  readonly #routes: (Route | undefined)[]
  readonly #build: (part: number) => Route

  constructor(count: number, first: Route, build: (part: number) => Route) {
    this.count = count
    this.#routes = [first]
    this.#build = build
  }

  routeOf(requestId: string): Route {
    const part = partOfRequest(requestId, this.count)
    const known = this.#routes[part]
    if (known !== undefined) return known
    const route = this.#build(part)
    this.#routes[part] = route
    return route
  }
}

/** A policy with what answering for it takes, worked out once per change of it. */
interface EnforcedPolicy {
  readonly policy: RegionPolicy
  readonly route: RoutePolicy
  readonly limits: readonly EnforcedLimit[]
  readonly overrides: PolicyOverrides | null
}

function overrideOf(
  { overrides }: EnforcedPolicy,
  { entries }: Descriptor,
): RegionOverride | undefined {
  const value = overrides === null ? undefined : entries[overrides.entry]?.value
  return value === undefined ? undefined : overrides?.byValue.get(value)
}

/** The limits as one tenant has them. A denial of all is a limit of nothing. */
function tenantLimits(
  { policy, limits }: EnforcedPolicy,
  override: RegionOverride,
): readonly EnforcedLimit[] {
  const isDenied = override.rule?.kind === 'deny'
  return limits.map((one) => {
    const had = tenantLimit(policy, one.limit, override)
    const limit = isDenied ? { ...had, capacity: 0, burst: 0 } : had
    if (limit === one.limit) return one
    return {
      ...one,
      limit,
      template: decisionTemplate(policy, limit),
      words: limitWords(policy, limit),
    }
  })
}

const NONE: readonly [] = []

/** Limits of capacity 0 apart from those that the store decides. */
function limitSet(
  limits: readonly EnforcedLimit[],
  { group, name }: { readonly group: number; readonly name: string },
): LimitSet {
  const isEach = limits.every(({ limit }) => limit.capacity > 0)
  // Most limits are shared by all routes of a policy, and so is the list of them.
  const asked = isEach ? limits : limits.filter(({ limit }) => limit.capacity > 0)
  const targets = asked.map(({ limit }) => ({
    limit,
    counter: counterId({ group, limitId: limit.id, usageEpoch: limit.usageEpoch, name }),
    notes: null,
  }))
  const denying = isEach ? NONE : limits.filter(({ limit }) => limit.capacity === 0)
  return { limits: asked, targets, denying }
}

/** All but candidates; the list itself where there are none. */
function liveOf(all: readonly EnforcedLimit[]): readonly EnforcedLimit[] {
  const isLive = ({ limit }: EnforcedLimit): boolean => limit.candidateOf === null
  return all.every(isLive) ? all : all.filter(isLive)
}

/** The limits of a policy in shadow together, as they would decide; each candidate on its own. */
function watchesOf(
  policy: RegionPolicy,
  all: readonly EnforcedLimit[],
  setOf: (limits: readonly EnforcedLimit[]) => LimitSet,
): readonly Watch[] {
  const live = liveOf(all)
  if (!policy.shadow && live === all) return NONE
  const watches: Watch[] = []
  const [first] = live
  if (policy.shadow && first !== undefined) {
    const cells = first.cells.watched('shadow')
    watches.push({ ...setOf(live), kind: 'shadow', inPlaceOf: null, cells })
  }
  for (const one of all) {
    const inPlaceOf = one.limit.candidateOf
    if (inPlaceOf === null) continue
    const cells = one.cells.watched('candidate')
    watches.push({ ...setOf([one]), kind: 'candidate', inPlaceOf, cells })
  }
  return watches
}

function sha256(text: string): string {
  return createHash('sha256').update(text).digest('base64url')
}
