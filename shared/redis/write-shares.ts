import { assert } from '../core/assert.ts'
import { parseCounterId, SLOT_GROUPS } from '../core/counter-id.ts'
import type { CounterId } from '../core/descriptor.ts'
import type { ShareOutcome, ShareWrite } from '../core/ledger/types.ts'
import type { RegionLimit } from '../core/policy.ts'
import { counterKey, groupKeys } from './keys.ts'
import { limitDoubles, packDoubles, unpackDoubles } from './layout.ts'
import type { RegionLink } from './region-link.ts'
import { bytesOf } from './scripts.ts'

/** Most counters of one script call, so that it stalls the checks for less than a millisecond. */
const WRITES_MAX = 64

const OCCUPIED = 1

/** What a group's writes need to become script arguments. */
export interface ShareContext {
  readonly limitFor: (id: CounterId) => RegionLimit | undefined
  /** Redis TIME minus the daemon's clock, ms. */
  readonly offsetMs: number
  /** About what Redis TIME is, ms. */
  readonly nowMs: number
}

/** Writes by slot group, in calls of bounded size; a counter is in one call only. */
export function shareCalls(
  writes: readonly ShareWrite[],
): readonly { readonly group: number; readonly writes: readonly ShareWrite[] }[] {
  const groups: ShareWrite[][] = Array.from({ length: SLOT_GROUPS }, () => [])
  for (const write of writes) {
    const parts = parseCounterId(write.id)
    assert(parts !== null, 'a share is written to a counter')
    groups[parts.group]?.push(write)
  }
  return groups.flatMap((all, group) =>
    Array.from({ length: Math.ceil(all.length / WRITES_MAX) }, (_, call) => ({
      group,
      writes: all.slice(call * WRITES_MAX, (call + 1) * WRITES_MAX),
    })),
  )
}

/** Writes shares of one slot group in one script call. */
export async function writeGroupShares(
  link: RegionLink,
  { group, writes }: { readonly group: number; readonly writes: readonly ShareWrite[] },
  context: ShareContext,
): Promise<readonly (readonly [CounterId, ShareOutcome])[]> {
  const { meta, ledger } = groupKeys(group)
  const limits: RegionLimit[] = []
  const doubles = writes.flatMap((write) => shareDoubles(write, context, limits))
  const keys = [meta, ledger, ...writes.map(({ id }) => counterKey(id))]
  const args = [
    packDoubles(limits.flatMap((limit) => limitDoubles(limit, context.nowMs))),
    packDoubles(doubles),
    ...writes.map(({ row }) => (row === null ? '' : JSON.stringify(row))),
  ]
  const outcomes = unpackDoubles(bytesOf(await link.runFenced('write-shares', keys, args)))
  return writes.map(({ id }, index) => [id, outcomes[index] === OCCUPIED ? 'occupied' : 'written'])
}

/** The write's part of the packed argument; adds its limit to `limits` where it is not there yet. */
function shareDoubles(
  write: ShareWrite,
  { limitFor, offsetMs }: ShareContext,
  limits: RegionLimit[],
): readonly number[] {
  const limit = limitFor(write.id)
  if (limit !== undefined && !limits.includes(limit)) limits.push(limit)
  const expUs = write.expiresAtMs === null ? 0 : Math.floor((write.expiresAtMs + offsetMs) * 1_000)
  return [
    limit === undefined ? 0 : limits.indexOf(limit) + 1,
    write.home,
    write.borrowed,
    expUs,
    Number(write.shrinks),
    Number(write.pinned),
    Number(write.row !== null),
  ]
}
