import type { Redis } from 'ioredis'
import { replicationIdOf } from './fence-all.ts'
import { GROUP_KEYS, REGION_KEYS } from './keys.ts'
import type { RegionLink } from './region-link.ts'

const REGION_SLOT_KEYS = [REGION_KEYS.region, ...GROUP_KEYS.map(({ meta }) => meta)]

/**
 * Opens further masters of a cluster for the daemon before slots of the region move to them; true where there are any,
 * for which the check scripts must be served anew.
 *
 * Only one that has none of the region's slots: what it will have of them comes by moving, key by key. One that has
 * some already may be a replica that took over, and nobody knows what it is missing; the daemon's next call there
 * fails, and it begins a new session.
 */
export async function adoptMasters(link: RegionLink): Promise<boolean> {
  if (!link.isCluster) return false
  const { fence, replicationId } = link.opened
  const known = replicationId.split(',')
  const free = await link.within('look for further masters', async () => {
    const masters = await link.onEach('masters', async (node) => ({ node, id: await idOf(node) }))
    const owners = new Set(await link.onEach(REGION_SLOT_KEYS, async (node) => node))
    return masters.flatMap(({ node, id }) =>
      id === null || known.includes(id) || owners.has(node) ? [] : [id],
    )
  })
  if (free.length === 0) return false
  await link.loadScripts()
  link.markOpened({ fence, replicationId: [...known, ...free].sort().join(',') })
  return true
}

/** Null of one that is no master any more; it will not have a slot then. */
function idOf(node: Redis): Promise<string | null> {
  return replicationIdOf(node).catch(() => null)
}
