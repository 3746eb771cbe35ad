/**
 * A plane in memory: policies matched by what enforcers match with, and decided by the algorithms' twins.
 *
 * Exact for one limiter that holds all of a limit (`whole`), which is what regions come to whose loans keep up with
 * the demand. A limit of several shards counts each key in as many parts, as it does there. With `split` each region has its base and nothing is lent: what stays where regions are cut off.
 */
import { allows } from '../../../shared/core/algorithms/algorithm.ts'
import { algorithmOf } from '../../../shared/core/algorithms/registry.ts'
import { splitBase } from '../../../shared/core/base-split.ts'
import { longestWindowMs } from '../../../shared/core/calendar.ts'
import { countedEntries } from '../../../shared/core/counted-entries.ts'
import { counterName } from '../../../shared/core/counter-id.ts'
import { partOfRequest, partTokens } from '../../../shared/core/counter-parts.ts'
import type { Descriptor } from '../../../shared/core/descriptor.ts'
import type { RegionOverride } from '../../../shared/core/overrides.ts'
import type { RegionLimit, RegionPolicy } from '../../../shared/core/policy.ts'
import {
  buildPolicyIndex,
  matchPolicy,
  type PolicyIndex,
} from '../../../shared/core/policy-index.ts'
import { POOL_UNITS, shareBurst } from '../../../shared/core/units.ts'
import {
  type PolicyOverrides,
  policyOverrides,
  tenantLimit,
} from '../../../shared/core/variant-index.ts'
import {
  type LimitDocument,
  type PolicyDocument,
  weightSteps,
} from '../../../shared/protocol/policy.ts'

export type SplitModel = 'whole' | 'split'

/** A policy, and what single tenants have in place of its numbers. */
export interface TwinPolicy {
  readonly document: PolicyDocument
  readonly overrides?: readonly RegionOverride[]
}

export interface TwinCheck {
  readonly region: string
  readonly domain: string
  readonly descriptors: readonly Descriptor[]
  readonly cost: number
  readonly nowMs: number
}

export interface TwinVerdict {
  readonly allowed: boolean
  /** Whether any policy governs a descriptor. */
  readonly isMatched: boolean
  /** `policy/limit` of each that denies. */
  readonly deniedBy: readonly string[]
}

interface Counter {
  readonly state: unknown
  /** What is not asked for until then is as if it never was. */
  readonly keptUntilMs: number
}

interface Target {
  readonly key: string
  readonly label: string
  readonly limit: RegionLimit
}

/** Counters that are held before those that have lapsed are looked for. */
const SWEEP_AT = 100_000

const UNMATCHED: TwinVerdict = { allowed: true, isMatched: false, deniedBy: [] }
const BOOT = { startUs: 0, recovering: false }

export class TwinPlane {
  readonly #policies: readonly TwinPolicy[]
  readonly #model: SplitModel
  readonly #indexes = new Map<string, PolicyIndex>()
  readonly #overrides = new Map<RegionPolicy, PolicyOverrides | null>()
  readonly #counters = new Map<string, Counter>()
  #sweepAt = SWEEP_AT
  #checks = 0

  constructor(policies: readonly TwinPolicy[], model: SplitModel) {
    this.#policies = policies
    this.#model = model
  }

  /** Counters that are held now. */
  get size(): number {
    return this.#counters.size
  }

  /** Decides a check and spends it, all or nothing. Checks come in the order of their times. */
  check(check: TwinCheck): TwinVerdict {
    const governing = this.#governing(check)
    if (governing.length === 0) return UNMATCHED
    // A log names no requests; enforcers give those that have no id one of their own, by which a part is chosen.
    const requestId = String(++this.#checks)
    const targets = governing.flatMap(({ policy, descriptor }) =>
      this.#targets(policy, descriptor, { region: check.region, requestId }),
    )
    const deniedBy: string[] = []
    // Two descriptors of a check may have one counter, which then is spent twice.
    const taken = new Map<string, Counter>()
    for (const target of targets) {
      const counter = this.#take(target, check, taken.get(target.key))
      if (counter === null) deniedBy.push(target.label)
      else taken.set(target.key, counter)
    }
    const allowed = deniedBy.length === 0
    if (allowed) this.#store(taken, check.nowMs)
    return { allowed, isMatched: true, deniedBy }
  }

  /** The counter once the cost is taken; null when it denies. */
  #take(
    { key, limit }: Target,
    { cost, nowMs }: TwinCheck,
    before: Counter | undefined,
  ): Counter | null {
    if (limit.capacity === 0) return null
    const algorithm = algorithmOf(limit)
    const counter = before ?? this.#counters.get(key)
    const state = counter === undefined || counter.keptUntilMs < nowMs ? null : counter.state
    const circumstances = { limit, share: null, boot: BOOT, nowUs: nowMs * 1_000 }
    const settled = algorithm.settle(state, circumstances)
    if (!allows(settled, limit, cost)) return null
    const spent = algorithm.take(settled, cost)
    return { state: algorithm.store(spent), keptUntilMs: nowMs + algorithm.keepMs(spent) }
  }

  #store(taken: ReadonlyMap<string, Counter>, nowMs: number): void {
    for (const [key, counter] of taken) this.#counters.set(key, counter)
    if (this.#counters.size < this.#sweepAt) return
    for (const [key, { keptUntilMs }] of this.#counters) {
      if (keptUntilMs < nowMs) this.#counters.delete(key)
    }
    this.#sweepAt = Math.max(SWEEP_AT, 2 * this.#counters.size)
  }

  /** The policy of each descriptor, but for those that another one's replaces. */
  #governing({ region, domain, descriptors }: TwinCheck) {
    const index = this.#indexOf(region)
    const all = descriptors.flatMap((descriptor) => {
      const policy = matchPolicy(index, domain, descriptor)
      return policy === null ? [] : [{ policy, descriptor }]
    })
    const replaced = new Set(all.flatMap(({ policy }) => othersReplaced(policy)))
    return all.filter(({ policy }) => !replaced.has(policy.name))
  }

  #targets(
    policy: RegionPolicy,
    { entries }: Descriptor,
    { region, requestId }: { readonly region: string; readonly requestId: string },
  ): readonly Target[] {
    if (policy.unlimited || policy.shadow) return []
    const overrides = this.#overridesOf(policy)
    const value = overrides === null ? undefined : entries[overrides.entry]?.value
    const override = value === undefined ? undefined : overrides?.byValue.get(value)
    if (override?.rule?.kind === 'unlimited') return []
    const name = counterName(countedEntries(policy.match, entries), (text) => text)
    const place = this.#model === 'whole' ? '' : region
    return policy.limits
      .filter(({ candidateOf, algorithm }) => candidateOf === null && algorithm !== 'concurrency')
      .map((limit) => ({
        key: `${place} ${limit.id} ${partOfRequest(requestId, limit.shards)} ${name}`,
        label: `${policy.name}/${limit.name}`,
        limit:
          override?.rule?.kind === 'deny'
            ? { ...limit, capacity: 0 }
            : partOf(tenantLimit(policy, limit, override)),
      }))
  }

  #overridesOf(policy: RegionPolicy): PolicyOverrides | null {
    const known = this.#overrides.get(policy)
    if (known !== undefined) return known
    const found = policyOverrides(policy)
    this.#overrides.set(policy, found)
    return found
  }

  #indexOf(region: string): PolicyIndex {
    const place = this.#model === 'whole' ? '' : region
    const known = this.#indexes.get(place)
    if (known !== undefined) return known
    let limitId = 0
    const policies = this.#policies.map(({ document, overrides }, position) => ({
      ...regionPolicy(document, place, () => ++limitId),
      id: position + 1,
      ...(overrides !== undefined && { overrides }),
    }))
    const index = buildPolicyIndex({ version: 1, incarnation: 1, policies }, null)
    this.#indexes.set(place, index)
    return index
  }
}

/** A limit as one of the parts has it in which its keys are counted. */
function partOf(limit: RegionLimit): RegionLimit {
  const { shards, home } = limit
  if (shards === 1) return limit
  const capacity = partTokens(limit.capacity, shards)
  const burst = partTokens(limit.burst, shards)
  return { ...limit, capacity, burst, idle: { tokens: shareBurst(burst, home), atUs: 0 } }
}

function othersReplaced({ name, replaces = [] }: RegionPolicy): readonly string[] {
  return replaces.filter((other) => other !== name)
}

/** A policy as a region enforces it that has its base (`place` empty: all) of each limit. */
function regionPolicy(
  document: PolicyDocument,
  place: string,
  nextId: () => number,
): Omit<RegionPolicy, 'id'> {
  const { domain, name, match, mode, onStoreFailure, shadow, unlimited } = document
  const { relaxedPercent = null, tiers, overridesBy, replaces } = document
  return {
    domain,
    name,
    revision: 1,
    match,
    mode,
    relaxedPercent,
    onStoreFailure,
    shadow,
    unlimited,
    ...(tiers !== undefined && { tiers }),
    ...(overridesBy !== undefined && { overridesBy }),
    ...(replaces !== undefined && { replaces }),
    limits: document.limits.map((limit) => regionLimit(limit, place, nextId())),
  }
}

function regionLimit(limit: LimitDocument, place: string, id: number): RegionLimit {
  const { name, algorithm, capacity, calendar = null, burst = capacity, shards = 1 } = limit
  const home =
    place === '' ? POOL_UNITS : (splitBase(weightSteps(limit.split), capacity)[place] ?? 0)
  const windowMs =
    calendar === null ? (limit.windowMs ?? limit.holdMs ?? 1) : longestWindowMs(calendar.unit)
  return {
    id,
    name,
    algorithm,
    calendar,
    shards,
    leases: 'off',
    candidateOf: null,
    capacity,
    windowMs,
    burst,
    usageEpoch: 0,
    home,
    version: 1,
    previous: null,
    changedAtUs: 0,
    idle: { tokens: shareBurst(burst, home), atUs: 0 },
  }
}
