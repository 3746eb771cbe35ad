import type { Redis } from 'ioredis'
import { GROUP_KEYS, REGION_KEYS } from './keys.ts'
import { decodeMeta, type Meta, unpackDoubles } from './layout.ts'
import { type RegionLink, unavailable } from './region-link.ts'
import { bytesOf } from './scripts.ts'
import { type MonotonicClock, offsetAt } from './store-clock.ts'

/** Tries to get above the fences found; a second is needed only where a slot group kept more than the region did. */
const ATTEMPTS_MAX = 3

export interface Fenced {
  readonly fence: number
  readonly replicationId: string
  /** Per slot group, as found; null where there was none. */
  readonly metas: readonly (Meta | null)[]
  /** Redis TIME minus the clock, ms; never more than the true difference. */
  readonly offsetMs: number
}

/**
 * Takes a fence above all others and raises it in every slot group. Rejects on a replica, and where this user may not
 * ask for the time.
 */
export async function fenceAll(link: RegionLink, clock: MonotonicClock): Promise<Fenced> {
  // Every script asks for it, and of one that may not Redis does not say which command it was.
  await link.within('ask Redis for its TIME', () => link.onEach('masters', (node) => node.time()))
  const replicationId = await readReplicationId(link)
  let known = 0
  for (let attempt = 0; attempt < ATTEMPTS_MAX; attempt++) {
    const fence = Number(await link.run('raise-fence', [REGION_KEYS.fence], [known]))
    const groups = await Promise.all(
      GROUP_KEYS.map(async ({ meta }) =>
        parseGroup(await link.run('fence-group', [meta], [fence]), clock),
      ),
    )
    known = Math.max(...groups.map(({ found }) => found))
    if (known < fence) {
      const offsetMs = Math.max(...groups.map((group) => group.offsetMs))
      return { fence, replicationId, metas: groups.map(({ meta }) => meta), offsetMs }
    }
  }
  throw unavailable('another daemon takes fences as fast as this one')
}

function parseGroup(
  reply: unknown,
  clock: MonotonicClock,
): {
  readonly offsetMs: number
  readonly found: number
  readonly meta: Meta | null
} {
  const [, facts, text] = reply as [number, Buffer, Buffer]
  const [atUs = 0, found = 0] = unpackDoubles(bytesOf(facts))
  return { offsetMs: offsetAt(atUs, clock), found, meta: decodeMeta(bytesOf(text)) }
}

/** Of a cluster those of all masters, separated by commas. */
async function readReplicationId(link: RegionLink): Promise<string> {
  const ids = await link.within('read the replication state', () =>
    link.onEach('masters', replicationIdOf),
  )
  return [...ids].sort().join(',')
}

/** Rejects on a replica. */
export async function replicationIdOf(node: Redis): Promise<string> {
  const info = await node.info('replication')
  const id = /^master_replid:([0-9a-f]{40})/m.exec(info)?.[1]
  if (id === undefined || !/^role:master/m.test(info)) throw unavailable('this Redis is a replica')
  return id
}
