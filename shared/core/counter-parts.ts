/**
 * Parts of a key that is too hot for one Redis shard.
 *
 * A limit of n shards counts each key in n parts. A part is a counter like any other, of a limit of an n-th of the
 * tokens: it has a share in each region, is lent, leased, refunded and counted like any counter, and no part knows of
 * another. So whatever holds of one counter over all regions holds of each part, and summed over n parts nothing passes
 * n times an n-th of the limit. A check goes to one part, chosen by its request id, so that what gives back what a
 * request took goes to the same one.
 */
import { SLOT_GROUPS } from './counter-id.ts'

/** More parts than slot groups would only put two of them in one; each would have too small a part of the share. */
export const SHARDS_MAX = SLOT_GROUPS

const FNV_OFFSET = 0x811c9dc5
const FNV_PRIME = 0x01000193

/**
 * How many slot groups each part is away from the first. The tags of the groups are evenly spaced over a cluster's
 * slots, and so is any number of parts that begins here: as far apart as they can be.
 */
const STEPS = [0, 8, 4, 12, 2, 10, 6, 14, 1, 9, 5, 13, 3, 11, 7, 15] as const

/** Tokens of one part. What does not divide evenly is in no part: all are alike, and none knows of another. */
export function partTokens(tokens: number, shards: number): number {
  return Math.floor(tokens / shards)
}

/** Which of `shards` parts a request goes to; all enforcers of all regions say the same. */
export function partOfRequest(requestId: string, shards: number): number {
  let hash = FNV_OFFSET
  for (let index = 0; index < requestId.length; index++) {
    hash = Math.imul(hash ^ requestId.charCodeAt(index), FNV_PRIME)
  }
  // FNV's low bits are its weakest; fold the high half in before the remainder is taken.
  return ((hash ^ (hash >>> 16)) >>> 0) % shards
}

/** The slot group of a part of a key whose first part is in `group`. */
export function partGroup(group: number, part: number): number {
  return (group + (STEPS[part] ?? 0)) % SLOT_GROUPS
}
