import { holdingOf, pooledTokens } from '../../shared/core/enforced.ts'
import type { Limit, Policy } from '../../shared/core/policy.ts'
import { type Asked, allot, floorsOf, type Tokens } from '../../shared/core/stock/pool.ts'
import { windowAt } from '../../shared/core/stock/stock-limit.ts'
import { QuotaError } from '../../shared/errors.ts'
import type { PolicySource } from '../../shared/nats/policy-publisher.ts'
import type { PolicyChange } from '../../shared/protocol/policy-messages.ts'
import type { StockReply, StockRequest } from '../../shared/protocol/stock-messages.ts'
import { PLAIN_LIMIT, PLAIN_POLICY } from './region-policy.ts'

/** What admin keeps in Postgres, in memory: policies by revision and incarnations by region. */
export class MemoryPlane implements PolicySource {
  readonly #changes = new Map<number, PolicyChange>()
  readonly #incarnations = new Map<string, number>()
  readonly #answered = new Map<string, { incarnation: number; first: boolean }>()
  /** Of long windows: what is pinned for each, and what each counter was allotted. */
  readonly #floors = new Map<string, Tokens>()
  readonly #allotted = new Map<string, Tokens>()
  readonly #asked = new Map<string, Readonly<Record<string, Asked>>>()
  members: readonly string[]
  formerMembers: readonly string[] = []
  leastIncarnations: Readonly<Record<string, number>> = {}
  revision = 1
  /** While true no question about stock is answered. */
  isStockAway = false
  /** So many answers about stock are lost once they were worked out. */
  stockAnswersToLose = 0

  constructor(members: readonly string[]) {
    this.members = members
  }

  /** Saves a policy under the next revision. */
  put(policy: Policy): number {
    const revision = ++this.revision
    this.#changes.set(policy.id, { kind: 'policy', policy: { ...wirePolicy(policy), revision } })
    return revision
  }

  remove(id: number): number {
    const revision = ++this.revision
    this.#changes.set(id, { kind: 'removed', id, revision })
    return revision
  }

  async readChanges(query: { readonly after: number; readonly limit: number }) {
    const newer = [...this.#changes.values()]
      .filter((change) => revisionOf(change) > query.after)
      .sort((one, other) => revisionOf(one) - revisionOf(other))
    return {
      revision: this.revision,
      members: this.members,
      formerMembers: this.formerMembers,
      leastIncarnations: this.leastIncarnations,
      changes: newer.slice(0, query.limit),
      hasMore: newer.length > query.limit,
    }
  }

  async readCheckTokens() {
    return { mark: '0', asOfMs: 1, items: [], next: null }
  }

  async takeIncarnation(question: {
    readonly region: string
    readonly requestId: string
    readonly atLeast: number
  }) {
    const known = this.#answered.get(question.requestId)
    if (known !== undefined) return known
    const last = this.#incarnations.get(question.region)
    const incarnation = Math.max(last ?? 0, question.atLeast) + 1
    const answer = { incarnation, first: last === undefined }
    this.#incarnations.set(question.region, incarnation)
    this.#answered.set(question.requestId, answer)
    return answer
  }

  async answerStock(
    region: string,
    request: Omit<StockRequest, 'v'>,
  ): Promise<Omit<StockReply, 'v'>> {
    if (this.isStockAway) throw new QuotaError('QUOTA_DATABASE_UNAVAILABLE', 'Postgres is away')
    const windows = request.windows.flatMap((ask) => {
      const { policy, limit } = this.#stockOf(ask.limitId)
      const { startMs, endMs } = windowAt(limit, ask.atMs)
      const key = `${ask.limitId}.${ask.usageEpoch}.${startMs}`
      const capacity = pooledTokens(policy, limit.capacity)
      const floors = this.#floors.get(key) ?? floorsOf({ ...limit, capacity })
      this.#floors.set(key, floors)
      const { limitId, usageEpoch } = ask
      return [{ limitId, usageEpoch, startMs, endMs, floor: floors[region] ?? 0 }]
    })
    const allotted = request.asks.flatMap(({ want, ...ask }) => {
      const { policy, limit } = this.#stockOf(ask.limitId)
      const window = `${ask.limitId}.${ask.usageEpoch}.${ask.startMs}`
      const floors = this.#floors.get(window)
      if (floors === undefined) return []
      const known = this.#allotted.get(`${window}:${ask.counter}`) ?? {}
      const capacity = pooledTokens(policy, limit.capacity)
      const asked = this.#asked.get(`${window}:${ask.counter}`) ?? {}
      const { question } = request
      const given = allot({ capacity, floors, allotted: known, asked }, { region, want, question })
      this.#allotted.set(`${window}:${ask.counter}`, { ...known, [region]: given.to })
      const answered = { ...asked, [region]: { question, from: given.from } }
      this.#asked.set(`${window}:${ask.counter}`, answered)
      return [{ ...ask, ...given }]
    })
    if (allotted.length > 0 && this.stockAnswersToLose > 0) {
      this.stockAnswersToLose -= 1
      throw new QuotaError('QUOTA_DATABASE_UNAVAILABLE', 'the answer is lost')
    }
    return { windows, allotted }
  }

  #stockOf(limitId: number): { readonly policy: Policy; readonly limit: Limit } {
    for (const change of this.#changes.values()) {
      if (change.kind !== 'policy') continue
      const { policy } = change
      const limit = policy.limits.find((one) => one.id === limitId)
      if (limit !== undefined && holdingOf(policy, limit) === 'stock') return { policy, limit }
    }
    throw new QuotaError('QUOTA_INVALID_INPUT', `limit ${limitId} is no stock`)
  }
}

/** 1,000 tokens a second for each tenant, split 60/40 between two regions, with valid defaults. */
export function aPolicy(change: Partial<Omit<Policy, 'limits'>> & Partial<Limit> = {}): Policy {
  const { id = 1, name = 'per-tenant', ...rest } = change
  const limit = aLimit({ ...rest, id, name: 'per-second' })
  return {
    id,
    domain: change.domain ?? 'api',
    name,
    description: change.description ?? '',
    revision: 0,
    match: change.match ?? [{ key: 'tenant' }],
    ...PLAIN_POLICY,
    objective: 'max-min',
    onStoreFailure: change.onStoreFailure ?? 'deny',
    limits: [limit],
  }
}

function aLimit(change: Partial<Limit>): Limit {
  return {
    id: change.id ?? 1,
    name: change.name ?? 'per-second',
    algorithm: change.algorithm ?? 'token_bucket',
    ...PLAIN_LIMIT,
    shards: change.shards ?? 1,
    capacity: change.capacity ?? 1_000,
    windowMs: change.windowMs ?? 1_000,
    burst: change.burst ?? change.capacity ?? 1_000,
    usageEpoch: change.usageEpoch ?? 0,
    epoch: change.epoch ?? 1,
    base: change.base ?? { 'us-east-1': 600_000, 'eu-west-1': 400_000 },
    previousBase: change.previousBase ?? null,
    floorPercent: change.floorPercent ?? 2,
  }
}

function wirePolicy(policy: Policy) {
  return {
    ...policy,
    match: policy.match.map((entry) => ({ ...entry })),
    limits: policy.limits.map((limit) => ({ ...limit })),
  }
}

function revisionOf(change: PolicyChange): number {
  return change.kind === 'policy' ? change.policy.revision : change.revision
}
