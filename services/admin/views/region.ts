import type { StoredRegion } from '../../../shared/postgres/regions.ts'
import type { RegionReply } from '../../../shared/protocol/admin-replies.ts'
import type { RegionHealth } from '../live-view.ts'

export function regionReplyOf(stored: StoredRegion, health: RegionHealth): RegionReply {
  const { id, description, state, revision } = stored
  return {
    id,
    description,
    state,
    revision,
    registeredAt: stored.registeredAt.toISOString(),
    health,
  }
}
