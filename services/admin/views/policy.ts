import { underEmergency } from '../../../shared/core/emergency.ts'
import type { Limit, RegionId } from '../../../shared/core/policy.ts'
import { listOpenEpochs } from '../../../shared/postgres/epochs.ts'
import type { Db } from '../../../shared/postgres/plane.ts'
import type { StoredLimit, StoredPolicy } from '../../../shared/postgres/policy-rows.ts'
import { listRegions } from '../../../shared/postgres/regions.ts'
import type { PolicyReply, PolicyStatus } from '../../../shared/protocol/admin-replies.ts'
import type { LimitDocument, PolicyDocument } from '../../../shared/protocol/policy.ts'
import { reviewPolicy } from '../../../shared/protocol/policy-warnings.ts'
import type { LiveView } from '../live-view.ts'
import type { RolloutView } from '../rollout-view.ts'
import { emergencyReplyOf } from './emergency.ts'
import { type Limits, regionRolloutFor } from './limited.ts'

/** A stored policy as its operator wrote it; putting it again changes nothing. */
export function documentOf(stored: StoredPolicy): PolicyDocument {
  return {
    domain: stored.domain,
    name: stored.name,
    description: stored.description,
    match: [...stored.match],
    mode: stored.mode,
    ...(stored.relaxedPercent !== null && { relaxedPercent: stored.relaxedPercent }),
    objective: stored.objective,
    onStoreFailure: stored.onStoreFailure,
    shadow: stored.shadow,
    unlimited: stored.unlimited,
    ...(stored.replaces !== undefined && { replaces: [...stored.replaces] }),
    rebase: stored.rebase,
    acceptSmallLimits: stored.acceptSmallLimits,
    limits: enforcedLimits(stored).map((limit) =>
      limitDocumentOf(limit, candidateOf(stored, limit)),
    ),
    ...(stored.tiers !== undefined && { tiers: stored.tiers }),
    ...(stored.overridesBy !== undefined && { overridesBy: stored.overridesBy }),
    ...(Object.keys(stored.labels).length > 0 && { labels: stored.labels }),
  }
}

/** A stored policy as admin shows it in a plane of these regions at `nowMs`. */
export function policyReplyOf(
  stored: StoredPolicy,
  { members, nowMs }: { readonly members: readonly RegionId[]; readonly nowMs: number },
): PolicyReply {
  const document = documentOf(stored)
  const inForce = new Map(underEmergency(stored, nowMs).limits.map((limit) => [limit.id, limit]))
  const emergency = (stored.emergency ?? []).filter(({ expiresAtMs }) => nowMs < expiresAtMs)
  return {
    ...document,
    overrideCount: stored.overrides?.length ?? 0,
    id: stored.id,
    revision: stored.revision,
    createdAt: stored.createdAt.toISOString(),
    updatedAt: stored.updatedAt.toISOString(),
    emergency: emergency.map((action) => emergencyReplyOf(action, stored, nowMs)),
    warnings: [...reviewPolicy(document, members).warnings],
    limits: enforcedLimits(stored).map((limit) => ({
      ...limitReplyOf(limit, candidateOf(stored, limit)),
      inForce: inForceOf(inForce.get(limit.id) ?? limit),
    })),
  }
}

function inForceOf({ capacity, burst, lending = 'free' }: Limit) {
  return { capacity, burst, lending }
}

function limitReplyOf(
  limit: StoredLimit,
  candidate: StoredLimit | undefined,
): Omit<PolicyReply['limits'][number], 'inForce'> {
  const { candidate: _candidate, ...document } = limitDocumentOf(limit, candidate)
  return {
    ...document,
    burst: limit.burst,
    burstFollowsCapacity: limit.burstFollowsCapacity,
    ...(candidate !== undefined && {
      candidate: {
        capacity: candidate.capacity,
        burst: candidate.burst,
        burstFollowsCapacity: candidate.burstFollowsCapacity,
        id: candidate.id,
      },
    }),
    id: limit.id,
    usageEpoch: limit.usageEpoch,
    epoch: limit.epoch,
    isEpochOpen: limit.previousBase !== null,
    base: limit.base,
  }
}

function enforcedLimits(stored: StoredPolicy): readonly StoredLimit[] {
  return stored.limits.filter((limit) => limit.candidateOf === null)
}

function candidateOf(stored: StoredPolicy, limit: StoredLimit): StoredLimit | undefined {
  return stored.limits.find((other) => other.candidateOf === limit.id)
}

interface StatusDeps {
  readonly db: Db
  readonly live: LiveView
  readonly rollouts: RolloutView
  readonly wallMs: () => number
}

/** Which regions have applied the policy as it is saved, by their newest records, and what their enforcers say. */
export async function policyStatusOf(
  stored: StoredPolicy,
  { db, live, rollouts, wallMs }: StatusDeps,
  caller: Pick<Limits, 'domains'>,
): Promise<PolicyStatus> {
  const members = (await listRegions(db)).map((region) => region.id)
  const open = (await listOpenEpochs(db)).filter((epoch) => epoch.policyId === stored.id)
  const regions = members.map((region) => {
    const { appliedRevision, ageMs } = live.health(region, wallMs())
    // The region's daemon has it: that says nothing of an enforcer that refused it.
    const isWritten = appliedRevision !== null && appliedRevision >= stored.revision
    const rollout = rollouts.regionOf(region, stored.revision, wallMs())
    const { state, reason } = regionRolloutFor(caller, rollout)
    const isRefused = state === 'refused' || state === 'pending'
    return { region, isApplied: isWritten && !isRefused, appliedRevision, ageMs, reason }
  })
  return {
    revision: stored.revision,
    isAppliedEverywhere: regions.every((region) => region.isApplied),
    regions,
    openEpochs: open.map((epoch) => ({
      limit: epoch.limit,
      epoch: epoch.epoch,
      awaited: members.filter((region) => !epoch.adopted.includes(region)),
      openedAt: epoch.openedAt.toISOString(),
    })),
  }
}

function limitDocumentOf(limit: StoredLimit, candidate: StoredLimit | undefined): LimitDocument {
  return {
    name: limit.name,
    algorithm: limit.algorithm,
    ...numbersOf(limit),
    ...timesOf(limit),
    split: limit.split,
    floorPercent: limit.floorPercent,
    ...(candidate !== undefined && { candidate: numbersOf(candidate) }),
    shards: limit.shards,
    leases: limit.leases,
  }
}

function numbersOf({ capacity, burst, burstFollowsCapacity }: StoredLimit) {
  return { capacity, ...(!burstFollowsCapacity && { burst }) }
}

function timesOf({ algorithm, calendar, windowMs }: StoredLimit) {
  if (calendar !== null) return { calendar }
  return algorithm === 'concurrency' ? { holdMs: windowMs } : { windowMs }
}
