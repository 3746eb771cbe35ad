/**
 * Every Redis key, built in one place.
 *
 * All keys that one script touches share a hash tag: those of a slot group have the group's, those of the region
 * have `qp`. So the layout holds in Redis Cluster. Prefixes are one letter because they are stored per key.
 */
import { assert } from '../core/assert.ts'
import { SLOT_GROUP_TAGS } from '../core/counter-id.ts'
import type { CounterId } from '../core/descriptor.ts'

export interface GroupKeys {
  /** Fence, incarnation, boot instant, policy version: read by every batch. */
  readonly meta: string
  /** Counters that ran low or denied and are not tracked. */
  readonly hot: string
  /** Usage totals per limit and window. */
  readonly usage: string
  /** Ledger row of each tracked counter. */
  readonly ledger: string
}

export const GROUP_KEYS: readonly GroupKeys[] = SLOT_GROUP_TAGS.map((tag) => ({
  meta: `m:{${tag}}`,
  hot: `h:{${tag}}`,
  usage: `u:{${tag}}`,
  ledger: `l:{${tag}}`,
}))

export function groupKeys(group: number): GroupKeys {
  const keys = GROUP_KEYS[group]
  assert(keys !== undefined, 'the slot group exists')
  return keys
}

/** The counter's own key. Scripts take the id back by cutting the two characters in front. */
export function counterKey(id: CounterId): string {
  return `c:${id}`
}

/** Marks that a request was refunded; `digest` is of its id. */
export function refundKey(group: number, digest: string): string {
  return `r:{${SLOT_GROUP_TAGS[group]}}${digest}`
}

/** A lease of one enforcer; `id` is unique over all of them. */
export function leaseKey(group: number, id: string): string {
  return `e:{${SLOT_GROUP_TAGS[group]}}${id}`
}

/** What one enforcer said last of itself; `id` is of its process. Gone when it is. */
export function enforcerKey(id: string): string {
  return `qp:{qp}:enforcer:${id}`
}

export const REGION_KEYS = {
  /** Who leads the region, until when. */
  leader: 'qp:{qp}:leader',
  /** Number of the newest daemon that opened this store. */
  fence: 'qp:{qp}:fence',
  /** Fields of RegionField. */
  region: 'qp:{qp}:region',
  /** Peer -> PairState. */
  pairs: 'qp:{qp}:pairs',
  /** Policy id -> Policy, as the plane has it. */
  plane: 'qp:{qp}:plane',
  /** Enforcers that are alive, by the instant at which they no longer are. */
  enforcers: 'qp:{qp}:enforcers',
  /** Policy id -> RegionPolicy, as enforcers read it. */
  policies: 'qp:{qp}:policies',
  /** Ids of those and of removed ones, by the version at which they changed last. */
  versions: 'qp:{qp}:versions',
} as const

/** The channel on which scripts tell enforcers of a counter that grew and of other policies. */
export const NEWS_CHANNEL = 'qp:news'

export type RegionField =
  | 'region'
  | 'incarnation'
  | 'version'
  | 'revision'
  | 'format'
  /** First version from which it is kept which policies changed. */
  | 'versionsSince'
  /** Version up to which it is kept: an earlier one than `version` after a daemon that does not keep it. */
  | 'versionsAt'
  | 'members'
  /** Tokens for checks, a list of CheckToken. */
  | 'checkTokens'
  /** `asOfMs` of CheckTokens. */
  | 'checkTokensAsOf'
  | 'seqReserved'
  | 'replicationId'
  | 'checkSha'
  | 'checkUsualSha'
  | 'giveBackSha'
  | 'releaseSha'
  | 'leaseSha'
  | 'returnLeaseSha'
  | 'noteDenialsSha'
