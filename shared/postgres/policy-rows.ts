import { type ExpressionBuilder, sql } from 'kysely'
import { jsonArrayFrom } from 'kysely/helpers/postgres'
import { assert } from '../core/assert.ts'
import type { Override } from '../core/overrides.ts'
import type { BaseSplit, Limit, Policy, RebaseChoice, RegionId } from '../core/policy.ts'
import type { StoredAction } from './emergency.ts'
import type { Db } from './plane.ts'
import type { Tables } from './tables.ts'

/** A limit with what its operator wrote beside the numbers that regions work with. */
export interface StoredLimit extends Limit {
  /** Weights in per cent as they were written. */
  readonly split: Readonly<Record<RegionId, number>>
  /** The burst was left out, so it is the capacity whatever that becomes. */
  readonly burstFollowsCapacity: boolean
  /** Regions that have adopted the newest epoch; they matter while it is open. */
  readonly adopted: readonly RegionId[]
}

export interface StoredPolicy extends Policy {
  readonly limits: readonly StoredLimit[]
  readonly emergency?: readonly StoredAction[]
  readonly rebase: RebaseChoice
  readonly acceptSmallLimits: boolean
  /** What operators and their tools tell policies by; no region needs to know. */
  readonly labels: Readonly<Record<string, string>>
  readonly createdAt: Date
  readonly updatedAt: Date
}

/**
 * Selects policies with their limits and epochs in one statement, which sees one snapshot: a policy never
 * appears with the limits of another revision.
 */
export function selectPolicies(db: Db) {
  return db
    .selectFrom('policies')
    .selectAll('policies')
    .select((eb) => [
      jsonArrayFrom(
        eb
          .selectFrom('limits')
          .innerJoin('base_epochs as newest', (join) =>
            join
              .onRef('newest.limit_id', '=', 'limits.id')
              .on(
                'newest.epoch',
                '=',
                sql<number>`(select max(epoch) from base_epochs where limit_id = limits.id)`,
              ),
          )
          .leftJoin('base_epochs as previous', (join) =>
            join
              .onRef('previous.limit_id', '=', 'limits.id')
              .on(sql<boolean>`previous.epoch = newest.epoch - 1 and newest.closed_at is null`),
          )
          .whereRef('limits.policy_id', '=', 'policies.id')
          .select([
            'limits.id',
            'limits.name',
            'limits.algorithm',
            'limits.capacity',
            'limits.window_ms',
            'limits.burst',
            'limits.calendar_unit',
            'limits.time_zone',
            'limits.shards',
            'limits.leases',
            'limits.candidate_of',
            'limits.split',
            'limits.floor_percent',
            'limits.usage_epoch',
            'newest.epoch',
            'newest.base',
            'newest.adopted',
            'previous.base as previous_base',
          ])
          .orderBy(sql`limits.candidate_of is not null`)
          .orderBy('limits.position'),
      ).as('limits'),
      overridesOf(eb).as('overrides'),
      actionsOf(eb).as('emergency'),
    ])
}

/** True of policies that have every one of these labels. */
export function hasLabels(labels: Readonly<Record<string, string>>) {
  return sql<boolean>`labels @> ${JSON.stringify(labels)}::jsonb`
}

/** Whether a policy has this in its name, with its domain, or in its description, in any case. */
export function hasText(text: string) {
  const within = sql`lower(domain || '/' || name || ' ' || description)`
  return sql<boolean>`position(lower(${text}) in ${within}) > 0`
}

/** Overrides of the policy of the row. */
function overridesOf(eb: ExpressionBuilder<Tables, 'policies'>) {
  return jsonArrayFrom(
    eb
      .selectFrom('overrides')
      .whereRef('overrides.policy_id', '=', 'policies.id')
      .select([
        'overrides.value',
        'overrides.rule',
        sql<number | null>`floor(extract(epoch from expires_at) * 1000)::bigint`.as('expires_ms'),
      ])
      .orderBy('overrides.value'),
  )
}

/** Emergency actions of the policy of the row that have not ended in the books. */
function actionsOf(eb: ExpressionBuilder<Tables, 'policies'>) {
  return jsonArrayFrom(
    eb
      .selectFrom('emergency_actions')
      .whereRef('emergency_actions.policy_id', '=', 'policies.id')
      .where('ended_at', 'is', null)
      .select([
        'emergency_actions.id',
        'emergency_actions.effect',
        'emergency_actions.split',
        'emergency_actions.reason',
        'emergency_actions.begun_by',
        sql<number>`floor(extract(epoch from begun_at) * 1000)::bigint`.as('begun_ms'),
        sql<number>`floor(extract(epoch from expires_at) * 1000)::bigint`.as('expires_ms'),
      ])
      .orderBy('emergency_actions.id'),
  )
}

type PolicyRow = Awaited<ReturnType<ReturnType<typeof selectPolicies>['execute']>>[number]
type LimitRow = PolicyRow['limits'][number]

export function toPolicy(row: PolicyRow): StoredPolicy {
  assert(row.limits.length > 0 || row.unlimited, 'a stored policy has limits')
  return {
    id: row.id,
    domain: row.domain,
    name: row.name,
    description: row.description,
    revision: row.revision,
    match: row.match,
    mode: row.mode,
    relaxedPercent: row.relaxed_percent,
    objective: row.objective,
    onStoreFailure: row.on_store_failure,
    shadow: row.shadow,
    unlimited: row.unlimited,
    rebase: row.rebase,
    acceptSmallLimits: row.accept_small_limits,
    labels: row.labels,
    limits: row.limits.map(toLimit),
    ...(row.tiers !== null && { tiers: row.tiers }),
    ...(row.overrides_by !== null && { overridesBy: row.overrides_by }),
    ...(row.replaces !== null && { replaces: row.replaces }),
    ...(row.overrides.length > 0 && { overrides: row.overrides.map(toOverride) }),
    ...(row.emergency.length > 0 && { emergency: row.emergency.map(toAction) }),
    createdAt: row.created_at,
    updatedAt: row.updated_at,
  }
}

function toAction(row: PolicyRow['emergency'][number]): StoredAction {
  const { id, effect, split, reason, begun_by: begunBy } = row
  return {
    id,
    effect,
    split,
    reason,
    begunBy,
    begunAtMs: row.begun_ms,
    expiresAtMs: row.expires_ms,
  }
}

function toOverride(row: PolicyRow['overrides'][number]): Override {
  const { value, rule, expires_ms: expiresAtMs } = row
  return { value, rule, ...(expiresAtMs !== null && { expiresAtMs }) }
}

function toLimit(row: LimitRow): StoredLimit {
  return {
    id: row.id,
    name: row.name,
    algorithm: row.algorithm,
    calendar:
      row.calendar_unit === null || row.time_zone === null
        ? null
        : { unit: row.calendar_unit, timeZone: row.time_zone },
    shards: row.shards,
    leases: row.leases,
    candidateOf: row.candidate_of,
    capacity: row.capacity,
    windowMs: row.window_ms,
    burst: row.burst ?? row.capacity,
    usageEpoch: row.usage_epoch,
    epoch: row.epoch,
    base: row.base,
    previousBase: row.previous_base,
    floorPercent: row.floor_percent,
    split: row.split,
    burstFollowsCapacity: row.burst === null,
    adopted: row.adopted,
  }
}

/** The part of a stored policy that regions work with. */
export function policyOf(stored: StoredPolicy): Policy {
  const { createdAt: _created, updatedAt: _updated, ...rest } = stored
  const { rebase: _rebase, acceptSmallLimits: _small, labels: _labels, ...policy } = rest
  const emergency = stored.emergency?.map(({ id, effect, expiresAtMs }) => ({
    id,
    effect,
    expiresAtMs,
  }))
  return {
    ...policy,
    limits: stored.limits.map(limitOf),
    ...(emergency !== undefined && { emergency }),
  }
}

function limitOf(stored: StoredLimit): Limit {
  const { split: _split, burstFollowsCapacity: _follows, adopted: _adopted, ...limit } = stored
  return limit
}

/** True when both give every region the same units. */
export function isSameSplit(one: BaseSplit, other: BaseSplit): boolean {
  const regions = new Set([...Object.keys(one), ...Object.keys(other)])
  return [...regions].every((region) => (one[region] ?? 0) === (other[region] ?? 0))
}
