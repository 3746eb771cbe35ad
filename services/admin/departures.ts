import type { RegionId } from '../../shared/core/policy.ts'
import { listUnsettledDepartures, settleDepartures } from '../../shared/postgres/departures.ts'
import type { Db } from '../../shared/postgres/plane.ts'
import type { LiveView } from './live-view.ts'

/**
 * Notes of which removed regions everybody who stayed knows. A region applies a revision before it publishes a
 * record that names it, and acknowledges no record of a region that is no member; so from then on nothing more is
 * lent to the removed one. Until then a region that loses its memory waits for it in full.
 */
export async function settleHeardDepartures(plane: {
  readonly db: Db
  readonly live: LiveView
  readonly members: readonly RegionId[]
}): Promise<void> {
  const { db, live, members } = plane
  const unsettled = await listUnsettledDepartures(db)
  const known = unsettled.filter(({ revision }) =>
    members.every((member) => (live.heard(member)?.record.policyRevision ?? -1) >= revision),
  )
  if (known.length === 0) return
  await settleDepartures(
    db,
    known.map(({ region }) => region),
  )
}
