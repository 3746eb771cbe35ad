/**
 * Every NATS subject of the plane, built in one place.
 *
 * A region's name is one subject token as it stands: the pattern of a name has no dot, space or wildcard, so
 * the mapping is the identity and two regions can never share a subject.
 */
import { assert } from '../core/assert.ts'
import type { RegionId } from '../core/policy.ts'

const ROOT = 'quotaplane.v1'
const STATE_PREFIX = `${ROOT}.state.`
const SYNC_PREFIX = `${ROOT}.sync.`
const INBOXES = '_INBOX.'

/**
 * What a region may be called; the same rule where regions are registered.
 *
 * Parts, loans and acknowledgements are kept by region in plain objects, and every object has a `constructor`.
 */
export const REGION_PATTERN = /^(?!constructor$)[a-z0-9][a-z0-9-]{0,62}$/

/** Records of every region. */
export const STATE_SUBJECTS = `${STATE_PREFIX}*`

/** Requests for whole records of every region. */
export const SYNC_SUBJECTS = `${SYNC_PREFIX}*`

/** Admin says the newest revision here, each second and on each change: `PolicyHint`. */
export const POLICY_REVISION_SUBJECT = `${ROOT}.policy.revision`

/** Requests for the changes since a revision, answered by any admin: `ChangesRequest` -> `ChangesReply`. */
export const POLICY_CHANGES_SUBJECT = `${ROOT}.policy.changes`

/** Requests for a region's next incarnation, answered by any admin. */
export const INCARNATION_SUBJECTS = `${ROOT}.incarnation.*`

/** Counts of eventual policies of every region. */
export const COUNT_SUBJECTS = `${ROOT}.counts.*`

/** What each region applies of the policies, for admin. */
export const ROLLOUT_SUBJECTS = `${ROOT}.rollout.*`

/** What the daemons of each region tell of themselves and their servers, for admin. */
export const FACTS_SUBJECTS = `${ROOT}.facts.*`

/** A region's requests for tokens of long windows, answered by any admin: `StockRequest` -> `StockReply`. */
export const STOCK_SUBJECTS = `${ROOT}.stock.*`

/** Admins that answer requests share this queue group, so that each request is answered once. */
export const ADMIN_QUEUE = 'quotaplane-admin'

/** Where `region` publishes its record. */
export function stateSubject(region: RegionId): string {
  return `${STATE_PREFIX}${regionToken(region)}`
}

/** Where others ask `region` for a whole record; the question has no content. */
export function syncSubject(region: RegionId): string {
  return `${SYNC_PREFIX}${regionToken(region)}`
}

/** Where `region` asks for its next incarnation. */
export function incarnationSubject(region: RegionId): string {
  return `${ROOT}.incarnation.${regionToken(region)}`
}

/** Where `region` publishes its counts of eventual policies. */
export function countSubject(region: RegionId): string {
  return `${ROOT}.counts.${regionToken(region)}`
}

/** Where `region` tells what it applies of the policies. */
export function rolloutSubject(region: RegionId): string {
  return `${ROOT}.rollout.${regionToken(region)}`
}

/** Where the daemons of `region` tell of themselves and their servers. */
export function factsSubject(region: RegionId): string {
  return `${ROOT}.facts.${regionToken(region)}`
}

/** Where `region` asks for tokens of long windows. */
export function stockSubject(region: RegionId): string {
  return `${ROOT}.stock.${regionToken(region)}`
}

/** Where answers to the questions of `region` arrive. Its server lets no other region listen there. */
export function inboxPrefix(region: RegionId): string {
  return `${INBOXES}${regionToken(region)}`
}

/**
 * Whether a question may be answered at `reply`: an inbox, and where it was asked in the name of `region`, not that of
 * another one. Admin may publish its answers anywhere, so whoever asks could otherwise have it speak as any region, or
 * hand what one region was given to a second.
 */
export function mayBeAnsweredAt(reply: string | undefined, region: RegionId | null): boolean {
  if (reply === undefined || !reply.startsWith(INBOXES)) return false
  const [owner = ''] = reply.slice(INBOXES.length).split('.')
  // Whoever has no inbox of a region's name has one by a random name, in capitals.
  return region === null || owner === region || !REGION_PATTERN.test(owner)
}

/** The region that a subject of one region names; null when it names none. */
export function regionOfSubject(subject: string): RegionId | null {
  const token = subject.slice(subject.lastIndexOf('.') + 1)
  return REGION_PATTERN.test(token) ? token : null
}

function regionToken(region: RegionId): string {
  assert(REGION_PATTERN.test(region), `"${region}" is a region's name`)
  return region
}
