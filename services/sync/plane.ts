import { partTokens } from '../../shared/core/counter-parts.ts'
import { underEmergency } from '../../shared/core/emergency.ts'
import { pooledTokens } from '../../shared/core/enforced.ts'
import type { LedgerLimit, Membership } from '../../shared/core/ledger/types.ts'
import type { Policy, RegionId } from '../../shared/core/policy.ts'
import type { ChangesSince } from '../../shared/nats/policy-client.ts'

/** Every policy of the plane at one revision, and the regions that take part. */
export interface Plane extends Membership {
  readonly revision: number
  readonly policies: ReadonlyMap<number, Policy>
  /**
   * When this process asked for the newest part of it, by its own clock; before all else where it was read from
   * the region's Redis. A region that lost its memory needs one that it asked for since.
   */
  readonly askedAtMs: number
}

export function planeOf(
  policies: readonly Policy[],
  revision: number,
  members: readonly RegionId[],
): Plane {
  return {
    revision,
    members,
    // Asked for by a region that recovers alone, and such a one asks admin.
    formerMembers: [],
    leastIncarnations: {},
    policies: new Map(policies.map((policy) => [policy.id, policy])),
    askedAtMs: Number.NEGATIVE_INFINITY,
  }
}

export const EMPTY_PLANE: Plane = planeOf([], 0, [])

/**
 * The plane after changes that were asked for at `askedAtMs`.
 *
 * Idempotent and indifferent to order: of two versions of one policy the one with the higher revision stays,
 * and changes up to an older revision than the plane's change nothing.
 */
export function applyChanges(plane: Plane, since: ChangesSince, askedAtMs: number): Plane {
  if (since.revision < plane.revision) return plane
  const policies = new Map(plane.policies)
  for (const change of since.changes) {
    const { id, revision } = change.kind === 'policy' ? change.policy : change
    if ((policies.get(id)?.revision ?? -1) > revision) continue
    if (change.kind === 'policy') policies.set(id, change.policy)
    else policies.delete(id)
  }
  const { changes: _changes, ...head } = since
  return { ...head, policies, askedAtMs }
}

/** A plane as it is to be enforced at an instant of Redis TIME: under the emergency actions in force then. */
export interface InForce {
  /** As admin said it, and as it is kept. */
  readonly of: Plane
  readonly plane: Plane
  readonly storeMs: number
}

export function inForceOf(of: Plane, storeMs: number): InForce {
  const isAny = [...of.policies.values()].some(({ emergency }) => emergency !== undefined)
  if (!isAny) return { of, plane: of, storeMs }
  const policies = [...of.policies].map(
    ([id, policy]) => [id, underEmergency(policy, storeMs)] as const,
  )
  return { of, plane: { ...of, policies: new Map(policies) }, storeMs }
}

/** The numbers of each limit that the ledger works with: those of one counter. */
export function ledgerLimits(plane: Plane): ReadonlyMap<number, LedgerLimit> {
  const limits = new Map<number, LedgerLimit>()
  for (const policy of plane.policies.values()) {
    for (const { name: _name, ...limit } of policy.limits) {
      const capacity = partTokens(pooledTokens(policy, limit.capacity), limit.shards)
      const burst = partTokens(pooledTokens(policy, limit.burst), limit.shards)
      limits.set(limit.id, { ...limit, capacity, burst, objective: policy.objective })
    }
  }
  return limits
}
