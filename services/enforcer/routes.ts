import { createHash } from 'node:crypto'
import { counterId, counterName, slotGroup } from '../../shared/core/counter-id.ts'
import type { Descriptor } from '../../shared/core/descriptor.ts'
import type { RegionLimit, RegionPolicy, StoreFailureBehaviour } from '../../shared/core/policy.ts'
import { matchPolicy, type PolicyIndex } from '../../shared/core/policy-index.ts'
import type { CheckTarget } from '../../shared/core/ports.ts'
import { type DecisionTemplate, decisionTemplate } from '../../shared/protocol/check-answer.ts'
import { type LimitWords, limitWords } from '../../shared/protocol/limit-words.ts'
import type { PolicyCells } from './metrics.ts'

/** A limit with what answering for it takes, worked out once per change of its policy. */
export interface EnforcedLimit {
  readonly limit: RegionLimit
  readonly template: DecisionTemplate
  readonly words: LimitWords
  readonly onStoreFailure: StoreFailureBehaviour
  readonly cells: PolicyCells
}

/** Where a descriptor leads: the limits that govern it and their counters. */
export interface Route {
  readonly group: number
  /** Empty when no policy matches; as long as `targets` and in their order. */
  readonly limits: readonly EnforcedLimit[]
  readonly targets: readonly CheckTarget[]
}

const UNMATCHED: Route = { group: 0, limits: [], targets: [] }

/**
 * Routes kept in each of the two generations, and characters of their keys. Holding too few costs time and never a
 * wrong count: counters live in Redis. Both together keep the table under a hundred megabytes whatever callers send.
 */
const GENERATION_ROUTES_MAX = 65_536
const GENERATION_CHARS_MAX = 6_000_000

/** Longer descriptors are worked out each time, so that what callers send cannot fill the memory. */
const KEPT_KEY_LENGTH_MAX = 512

/**
 * Finds routes and remembers them, within a bound and until the policies change.
 *
 * Two generations instead of a list ordered by use: when the young one is full it becomes the old one, and what
 * is asked for again moves back. A look-up then is one Map access, and nothing is moved on most of them.
 */
export class RouteTable {
  readonly #cellsOf: (policy: string) => PolicyCells
  readonly #enforced = new WeakMap<RegionPolicy, readonly EnforcedLimit[]>()
  #index: PolicyIndex | null = null
  #young = new Map<string, Route>()
  #old = new Map<string, Route>()
  #youngChars = 0

  constructor(cellsOf: (policy: string) => PolicyCells) {
    this.#cellsOf = cellsOf
  }

  /** Number of routes kept. */
  get size(): number {
    return this.#young.size + this.#old.size
  }

  /** The route of `descriptor` under `index`; equal descriptors get the same object while both are kept. */
  find(index: PolicyIndex, domain: string, descriptor: Descriptor): Route {
    if (index !== this.#index) this.#startOver(index)
    const key = routeKey(domain, descriptor)
    const young = this.#young.get(key)
    if (young !== undefined) return young
    const route = this.#old.get(key) ?? this.#build(index, domain, descriptor)
    if (key.length <= KEPT_KEY_LENGTH_MAX) this.#keep(key, route)
    return route
  }

  #startOver(index: PolicyIndex): void {
    this.#index = index
    this.#young = new Map()
    this.#old = new Map()
    this.#youngChars = 0
  }

  #keep(key: string, route: Route): void {
    const isFull =
      this.#young.size >= GENERATION_ROUTES_MAX || this.#youngChars >= GENERATION_CHARS_MAX
    if (isFull) {
      this.#old = this.#young
      this.#young = new Map()
      this.#youngChars = 0
    }
    this.#young.set(key, route)
    this.#youngChars += key.length
  }

  #build(index: PolicyIndex, domain: string, descriptor: Descriptor): Route {
    const policy = matchPolicy(index, domain, descriptor)
    if (policy === null) return UNMATCHED
    const group = slotGroup({ domain, entries: descriptor.entries })
    const name = counterName(descriptor.entries, sha256)
    const targets = policy.limits.map((limit) => ({
      limit,
      counter: counterId({ group, limitId: limit.id, usageEpoch: limit.usageEpoch, name }),
    }))
    return { group, limits: this.#enforce(policy), targets }
  }

  #enforce(policy: RegionPolicy): readonly EnforcedLimit[] {
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
    this.#enforced.set(policy, limits)
    return limits
  }
}

/** Injective by lengths, which is cheaper than the escapes of a counter's name. */
function routeKey(domain: string, descriptor: Descriptor): string {
  let key = `${domain.length}:${domain}`
  for (const { key: name, value } of descriptor.entries) {
    key += `${name.length}.${value.length}:${name}${value}`
  }
  return key
}

function sha256(text: string): string {
  return createHash('sha256').update(text).digest('base64url')
}
