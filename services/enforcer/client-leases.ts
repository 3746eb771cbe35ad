/**
 * Blocks of tokens for clients, which spend them as an enforcer spends its own (`lease-book.ts`) and under the same rule.
 *
 * Nothing is remembered of a block here: its id names the counter that it is of, and Redis knows whether it is out. So
 * any enforcer of the region takes it back, and none credits it to another counter.
 */
import { createHash, randomUUID } from 'node:crypto'
import { LEASE_MS } from '../../shared/core/lease.ts'
import type { CheckTarget, LeaseAsk, LeaseGrant, LeaseStore } from '../../shared/core/ports.ts'
import { isQuotaError, QuotaError } from '../../shared/errors.ts'
import type {
  LeaseRefusal,
  LeaseRequest,
  LeaseReturn,
} from '../../shared/protocol/lease-messages.ts'
import type { ClientLeaseCells } from './client-lease-metrics.ts'
import { unleasable } from './leasable.ts'
import type { EnforcedLimit, Route } from './route.ts'
import { type DecideContext, REROUTES_MAX } from './slot-group.ts'

/**
 * Bound on blocks that wait for Redis: what a hundred thousand keys that are asked for in blocks come to while Redis
 * answers within a tenth of a second. Beyond it clients ask for their checks one by one.
 */
const ASKS_IN_FLIGHT_MAX = 1_024

const HASH_LENGTH = 16

export type ClientGrant =
  | { readonly kind: 'refused'; readonly revision: number; readonly reason: LeaseRefusal }
  | {
      readonly kind: 'granted'
      readonly revision: number
      readonly id: string
      readonly limit: EnforcedLimit
      readonly grant: LeaseGrant
    }

type Context = Pick<DecideContext, 'policies' | 'routes' | 'guard'>

export class ClientLeases {
  readonly #store: LeaseStore | null
  readonly #context: Context
  readonly #cells: ClientLeaseCells
  #inFlight = 0

  constructor(options: {
    /** Null: nothing is leased. */
    readonly store: LeaseStore | null
    readonly context: Context
    readonly cells: ClientLeaseCells
  }) {
    this.#store = options.store
    this.#context = options.context
    this.#cells = options.cells
  }

  /**
   * A block of the one limit that governs the descriptor, or why there is none.
   *
   * Throws QUOTA_STORE_UNAVAILABLE while no policies are known and QUOTA_OVERLOADED where too many wait; an outage of
   * Redis is an answer.
   */
  async grant(request: LeaseRequest): Promise<ClientGrant> {
    const { revision } = this.#find(request).index
    try {
      return await this.#underNewest(() => this.#grantOnce(request))
    } catch (err) {
      if (isQuotaError(err, 'QUOTA_OVERLOADED') || !isQuotaError(err)) throw err
      return this.#refuse(revision, 'store_unavailable')
    }
  }

  /**
   * Credits what is left of a block: once, and not after its life. `unmatched` where the descriptor no longer leads to
   * the counter that the block is of. Throws QUOTA_STORE_UNAVAILABLE; the block then ends by itself.
   */
  async giveBack(left: LeaseReturn): Promise<'returned' | 'unmatched'> {
    return await this.#underNewest(() => this.#giveBackOnce(left))
  }

  async #grantOnce(request: LeaseRequest): Promise<ClientGrant> {
    const { index, route } = this.#find(request)
    const { revision, version } = index
    const { sole } = route
    const refusal = this.#store === null ? 'off' : refusalOf(route)
    if (this.#store === null || sole === null || refusal !== null) {
      return this.#refuse(revision, refusal ?? 'algorithm')
    }
    if (this.#context.guard.isOpen) return this.#refuse(revision, 'store_unavailable')
    const { target, limit } = sole
    const id = `${randomUUID()}.${hashOf(target)}`
    const ask = { id, group: route.group, target, tokens: request.tokens }
    const grant = await this.#ask(this.#store, ask, version)
    if (grant === null) return this.#refuse(revision, 'too_small')
    if (grant.tokens === 0) return this.#refuse(revision, 'empty')
    this.#cells.outcomes.granted.count++
    this.#cells.tokens.granted.count += grant.tokens
    return { kind: 'granted', revision, id, limit, grant }
  }

  async #giveBackOnce({ id, tokens, ...request }: LeaseReturn): Promise<'returned' | 'unmatched'> {
    const { index, route } = this.#find(request)
    const target = route.targets.find((one) => id.endsWith(`.${hashOf(one)}`))
    const store = this.#store
    if (store === null || target === undefined) return 'unmatched'
    const left = { id, group: route.group, target, tokens }
    await this.#within(() => store.giveUp(left, index.version))
    this.#cells.tokens.returned.count += tokens
    return 'returned'
  }

  /** Takes `step` again after the policies were read anew, while the region says that there are newer ones. */
  async #underNewest<T>(step: () => Promise<T>): Promise<T> {
    for (let reroutes = 0; ; reroutes++) {
      try {
        return await step()
      } catch (err) {
        if (!isQuotaError(err, 'QUOTA_POLICY_STALE') || reroutes === REROUTES_MAX) throw err
        await this.#context.policies.refresh()
      }
    }
  }

  #find({ domain, descriptors }: Pick<LeaseRequest, 'domain' | 'descriptors'>) {
    const index = this.#context.policies.current()
    const [descriptor] = descriptors
    if (index === null || descriptor === undefined) {
      throw new QuotaError('QUOTA_STORE_UNAVAILABLE', 'no policies have been read from Redis yet')
    }
    return { index, route: this.#context.routes.find(index, domain, descriptor) }
  }

  #refuse(revision: number, reason: LeaseRefusal): ClientGrant {
    this.#cells.outcomes[reason].count++
    return { kind: 'refused', revision, reason }
  }

  /** A block that comes after its life is nobody's, and goes back: a window would miss it until its end. */
  async #ask(store: LeaseStore, ask: LeaseAsk, version: number): Promise<LeaseGrant | null> {
    let isLate = false
    const asked = this.#within(() => store.grant(ask, version)).then(async (grant) => {
      if (!isLate || grant === null || grant.tokens === 0) return grant
      await store.giveUp({ ...ask, tokens: grant.tokens }, version)
      return null
    })
    return await withDeadline(asked, () => {
      isLate = true
    })
  }

  async #within<T>(call: () => Promise<T>): Promise<T> {
    if (this.#inFlight >= ASKS_IN_FLIGHT_MAX) {
      throw new QuotaError('QUOTA_OVERLOADED', 'too many leases are waiting for an answer')
    }
    this.#inFlight++
    try {
      return await call()
    } finally {
      this.#inFlight--
    }
  }
}

/** Why clients have no blocks of what a route leads to; null where they do. */
function refusalOf(route: Route): LeaseRefusal | null {
  if (!route.matched) return 'unmatched'
  if (route.unlimited) return 'unlimited'
  if (route.denying.length > 0) return 'denied'
  if (route.watches.length > 0) return 'watched'
  if (route.limits.length > 1) return 'several_limits'
  const { sole } = route
  if (sole === null) return 'algorithm'
  const { limit } = sole.limit
  // A check goes to the part that its id chooses, and blocks have none.
  if (limit.shards > 1) return 'sharded'
  return unleasable(limit)
}

function hashOf({ counter }: CheckTarget): string {
  return createHash('sha256').update(counter).digest('base64url').slice(0, HASH_LENGTH)
}

/** Nobody can spend what comes later than LEASE_MS. */
async function withDeadline<T>(work: Promise<T>, onLate: () => void): Promise<T> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<never>((_resolve, reject) => {
    timer = setTimeout(() => {
      onLate()
      reject(new QuotaError('QUOTA_STORE_UNAVAILABLE', 'Redis did not answer within a lease'))
    }, LEASE_MS)
  })
  try {
    return await Promise.race([work, late])
  } finally {
    clearTimeout(timer)
    // Whatever becomes of it later was answered already.
    work.catch(() => {})
  }
}
