import type { Db } from '../../../shared/postgres/plane.ts'
import { listPoliciesOf } from '../../../shared/postgres/region-life.ts'
import { listRegions, type StoredRegion } from '../../../shared/postgres/regions.ts'
import type { RegionReply } from '../../../shared/protocol/admin-replies.ts'
import type { RegionHealth } from '../live-view.ts'
import { attendanceOf, isMoving, unfinishedLimits } from '../region-moves.ts'

export function regionReplyOf(
  stored: StoredRegion,
  health: RegionHealth,
  move: RegionReply['move'],
): RegionReply {
  const { id, description, state, revision, resumesAt } = stored
  return {
    id,
    description,
    state,
    revision,
    registeredAt: stored.registeredAt.toISOString(),
    ...(resumesAt !== null && { resumesAt: resumesAt.toISOString() }),
    move,
    health,
  }
}

/** How far a region is that was asked to leave or to come back; null for one that stays as it is. */
export async function moveOf(db: Db, region: StoredRegion): Promise<RegionReply['move']> {
  if (!isMoving(region)) return null
  const regions = await listRegions(db)
  const policies = await listPoliciesOf(db, [region.id])
  const limits = unfinishedLimits(policies, region, attendanceOf(regions))
  const open = limits.filter(({ previousBase }) => previousBase !== null)
  const awaited = regions
    .map(({ id }) => id)
    .filter((id) => open.some(({ adopted }) => !adopted.includes(id)))
  return { limitsLeft: limits.length, awaited }
}
