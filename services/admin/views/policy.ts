import { listOpenEpochs } from '../../../shared/postgres/epochs.ts'
import type { Db } from '../../../shared/postgres/plane.ts'
import type { StoredLimit, StoredPolicy } from '../../../shared/postgres/policy-rows.ts'
import { listRegions } from '../../../shared/postgres/regions.ts'
import type { PolicyReply, PolicyStatus } from '../../../shared/protocol/admin-replies.ts'
import type { LimitDocument, PolicyDocument } from '../../../shared/protocol/policy.ts'
import type { LiveView } from '../live-view.ts'

/** A stored policy as its operator wrote it; putting it again changes nothing. */
export function documentOf(stored: StoredPolicy): PolicyDocument {
  return {
    domain: stored.domain,
    name: stored.name,
    description: stored.description,
    match: [...stored.match],
    onStoreFailure: stored.onStoreFailure,
    mode: stored.mode,
    limits: stored.limits.map(limitDocumentOf),
  }
}

/** A stored policy as admin shows it. */
export function policyReplyOf(stored: StoredPolicy): PolicyReply {
  return {
    ...documentOf(stored),
    id: stored.id,
    revision: stored.revision,
    createdAt: stored.createdAt.toISOString(),
    updatedAt: stored.updatedAt.toISOString(),
    limits: stored.limits.map((limit) => ({
      ...limitDocumentOf(limit),
      burst: limit.burst,
      burstFollowsCapacity: limit.burstFollowsCapacity,
      id: limit.id,
      usageEpoch: limit.usageEpoch,
      epoch: limit.epoch,
      isEpochOpen: limit.previousBase !== null,
      base: limit.base,
    })),
  }
}

/** Which regions have applied the policy as it is saved, by their newest records. */
export async function policyStatusOf(
  stored: StoredPolicy,
  { db, live, wallMs }: { db: Db; live: LiveView; wallMs: () => number },
): Promise<PolicyStatus> {
  const members = (await listRegions(db)).map((region) => region.id)
  const open = (await listOpenEpochs(db)).filter((epoch) => epoch.policyId === stored.id)
  const regions = members.map((region) => {
    const { appliedRevision, ageMs } = live.health(region, wallMs())
    const isApplied = appliedRevision !== null && appliedRevision >= stored.revision
    return { region, isApplied, appliedRevision, ageMs }
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

function limitDocumentOf(limit: StoredLimit): LimitDocument {
  return {
    name: limit.name,
    algorithm: limit.algorithm,
    capacity: limit.capacity,
    windowMs: limit.windowMs,
    ...(!limit.burstFollowsCapacity && { burst: limit.burst }),
    split: limit.split,
    floorPercent: limit.floorPercent,
  }
}
