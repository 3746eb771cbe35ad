/** Begins and ends emergency actions; each is a revision of its policy with an audit row. */
import { type EmergencyEffect, multiplied } from '../../shared/core/emergency.ts'
import { holdingOf } from '../../shared/core/enforced.ts'
import { hasBurst } from '../../shared/core/policy.ts'
import { QuotaError } from '../../shared/errors.ts'
import {
  type ActionOfPolicy,
  type ActionValues,
  deleteAction,
  findAction,
  insertAction,
  markEnded,
  type StoredAction,
} from '../../shared/postgres/emergency.ts'
import type { PlaneChange } from '../../shared/postgres/plane-change.ts'
import { touchPolicy } from '../../shared/postgres/policies.ts'
import {
  isSameSplit,
  type StoredLimit,
  type StoredPolicy,
} from '../../shared/postgres/policy-rows.ts'
import { listRegions } from '../../shared/postgres/regions.ts'
import {
  EMERGENCY_ACTIONS_MAX,
  EMERGENCY_FIXES,
  type EmergencyPut,
} from '../../shared/protocol/emergency.ts'
import { invalidInput } from '../../shared/protocol/zod-problems.ts'
import { plainBase } from './document-base.ts'
import { requirePolicy } from './policy-changes.ts'
import { attendanceOf, moveBase } from './region-moves.ts'
import { emergencyReplyOf } from './views/emergency.ts'

export interface BegunAction {
  readonly policy: StoredPolicy
  readonly action: StoredAction
}

/**
 * Begins an action. One of the same kind of target, the same tenant or the numbers or the loans of the same limit, takes
 * the place of the one before, so that what is in force is never a product of two of them.
 *
 * Throws QUOTA_INVALID_INPUT where the action would come to nothing, and QUOTA_EPOCH_OPEN for a pin whose base cannot
 * move yet.
 */
export async function beginAction(
  plane: PlaneChange,
  put: EmergencyPut,
  nowMs: number,
): Promise<BegunAction> {
  const { trx } = plane
  const key = { domain: put.domain, name: put.policy }
  const policy = await requirePolicy(trx, key)
  const effect = effectOf(policy, put)
  const present = policy.emergency ?? []
  const replaced = present.filter((one) => targetOf(one.effect) === targetOf(effect))
  if (present.length - replaced.length >= EMERGENCY_ACTIONS_MAX) throw tooMany(policy)
  for (const one of replaced) await removeAction(plane, one, nowMs)
  const split = put.split ?? null
  if (split !== null && 'limit' in effect) await pinBase(plane, policy, effect.limit ?? '', split)
  const values: ActionValues = {
    policyId: policy.id,
    effect,
    split,
    reason: put.reason,
    begunBy: plane.context.actor,
    begunAtMs: nowMs,
    expiresAtMs: nowMs + put.ttlSeconds * 1_000,
  }
  const id = await insertAction(trx, values)
  await touchPolicy(trx, policy.id, plane.takeRevision())
  const action: StoredAction = { id, ...values }
  const before = replaced.map((one) => emergencyReplyOf(one, policy, nowMs))
  record(plane, 'emergency.begin', policy, {
    before: before.length === 0 ? null : before,
    after: emergencyReplyOf(action, policy, nowMs),
  })
  return { policy: await requirePolicy(trx, key), action }
}

/** Ends an action before its time, or in the books when its time is over. */
export async function endAction(
  plane: PlaneChange,
  action: ActionOfPolicy,
  how: { readonly action: 'emergency.end' | 'emergency.expire'; readonly nowMs: number },
): Promise<void> {
  const { trx } = plane
  await removeAction(plane, action, how.nowMs)
  await touchPolicy(trx, action.policyId, plane.takeRevision())
  const before = emergencyReplyOf(action, action, how.nowMs)
  record(plane, how.action, action, { before, after: null })
}

/** The action of this id; of `domain` where one is given. */
export async function requireAction(
  plane: PlaneChange,
  id: number,
  domain: string | undefined,
): Promise<ActionOfPolicy> {
  const action = await findAction(plane.trx, id)
  if (action !== null && (domain ?? action.domain) === action.domain) return action
  const message = `there is no emergency action ${id}: it has ended, or never was`
  throw new QuotaError('QUOTA_ACTION_NOT_FOUND', message)
}

/** Brings the base back of a pin that has ended; false while its last move has not ended everywhere. */
export async function restoreBase(plane: PlaneChange, pin: ActionOfPolicy): Promise<boolean> {
  const { trx } = plane
  const policy = await requirePolicy(trx, pin)
  const name = 'limit' in pin.effect ? pin.effect.limit : null
  const limit = policy.limits.find((one) => one.name === name && one.candidateOf === null)
  const isPinnedAnew = policy.emergency?.some(
    (one) => one.split !== null && 'limit' in one.effect && one.effect.limit === name,
  )
  if (limit !== undefined && isPinnedAnew !== true) {
    if (limit.previousBase !== null) return false
    const base = plainBase(limit, attendanceOf(await listRegions(trx)))
    if (!isSameSplit(base, limit.base)) {
      await moveBase(trx, policy, limit, base)
      await touchPolicy(trx, policy.id, plane.takeRevision())
      const bases = { before: { base: limit.base }, after: { base } }
      record(plane, 'emergency.restore', policy, bases)
    }
  }
  await deleteAction(trx, pin.id)
  return true
}

/** A pin that moved the base stays in the books until the base is back. */
async function removeAction(
  { trx }: PlaneChange,
  action: StoredAction,
  nowMs: number,
): Promise<void> {
  if (action.split === null) await deleteAction(trx, action.id)
  else await markEnded(trx, action.id, nowMs)
}

async function pinBase(
  { trx }: PlaneChange,
  policy: StoredPolicy,
  name: string,
  split: Readonly<Record<string, number>>,
): Promise<void> {
  const limit = limitNamed(policy, name)
  const regions = await listRegions(trx)
  const unknown = Object.keys(split).find((region) => !regions.some(({ id }) => id === region))
  if (unknown !== undefined) {
    throw refusal('split', `names ${unknown}, which is not a registered region`)
  }
  const base = plainBase({ ...limit, split }, attendanceOf(regions))
  if (isSameSplit(base, limit.base)) return
  if (limit.previousBase !== null) {
    const message = `the base of limit ${name} is still moving: try again once every region has adopted epoch ${limit.epoch}, or pin it without a split`
    throw new QuotaError('QUOTA_EPOCH_OPEN', message)
  }
  await moveBase(trx, policy, limit, base)
}

function effectOf(policy: StoredPolicy, put: EmergencyPut): EmergencyEffect {
  const { kind } = put
  if (policy.unlimited) {
    const fix = 'give the policy limits, or create one that matches what is to be changed'
    throw refusal('policy', 'is unlimited, so it has nothing to change', fix)
  }
  if (kind === 'block' || kind === 'allow') {
    if (policy.shadow && kind === 'block') {
      const fix = 'take the policy out of shadow, or block the tenant in one that is enforced'
      throw refusal('policy', 'is in shadow: it never denies', fix)
    }
    return { kind, value: put.value ?? '' }
  }
  if (kind === 'freeze' || kind === 'pin') return { kind, limit: lentLimit(policy, put) }
  const limit = limitNamed(policy, put.limit)
  if (holdingOf(policy, limit) === 'stock') {
    throw refusal(
      'limit',
      `${limit.name} has windows of a day or more, whose tokens are given for good: change the policy instead`,
    )
  }
  const effect: EmergencyEffect =
    kind === 'multiply'
      ? { kind, limit: limit.name, factor: put.factor ?? 1 }
      : { kind, limit: limit.name, ...fixedNumbers(limit, put) }
  refuseEmptyParts(limit, effect)
  return effect
}

/** Fewer tokens than a key has parts would deny all, and that is said with a capacity of 0. */
function refuseEmptyParts(limit: StoredLimit, effect: EmergencyEffect): void {
  const isMultiplied = effect.kind === 'multiply'
  if (!isMultiplied && effect.kind !== 'fix') return
  const scaled = (tokens: number): number =>
    isMultiplied ? multiplied(tokens, effect.factor) : tokens
  const { capacity, burst } = isMultiplied ? limit : effect
  const least = Math.min(scaled(capacity), scaled(burst))
  if (scaled(capacity) === 0 || least >= limit.shards) return
  const message = `leaves ${least} tokens for the ${limit.shards} shards of ${limit.name}`
  const fix = `leave at least ${limit.shards}, burst included, or fix the capacity at 0 to deny all`
  throw refusal(isMultiplied ? 'factor' : 'capacity', message, fix)
}

/** Without a burst it stays in proportion, as the policy has it. */
function fixedNumbers(
  limit: StoredLimit,
  { capacity = 0, burst }: EmergencyPut,
): { readonly capacity: number; readonly burst: number } {
  if (burst !== undefined && (!hasBurst(limit.algorithm) || capacity === 0)) {
    throw refusal('burst', `is not for ${capacity === 0 ? 'a capacity of 0' : limit.algorithm}`)
  }
  if (burst !== undefined) return { capacity, burst }
  if (limit.burstFollowsCapacity || limit.capacity === 0) return { capacity, burst: capacity }
  const part = Math.floor((limit.burst / limit.capacity) * capacity)
  return { capacity, burst: Math.min(Number.MAX_SAFE_INTEGER, Math.max(1, part)) }
}

/** Null: every limit. A pin to a split is of one. */
function lentLimit(policy: StoredPolicy, put: EmergencyPut): string | null {
  const { limits } = policy
  const isLent = (limit: StoredLimit): boolean => holdingOf(policy, limit) === 'share'
  if (put.limit === undefined && put.split === undefined) {
    if (!limits.some(isLent)) {
      const fix = 'leave it as it is: nothing of it moves between regions'
      throw refusal('policy', 'has no limit that regions lend of', fix)
    }
    return null
  }
  const limit = limitNamed(policy, put.limit)
  if (!isLent(limit)) throw refusal('limit', `${limit.name} is not lent between regions`)
  return limit.name
}

function limitNamed({ limits }: StoredPolicy, name: string | undefined): StoredLimit {
  const enforced = limits.filter((limit) => limit.candidateOf === null)
  const [only] = enforced
  if (name === undefined && enforced.length === 1 && only !== undefined) return only
  const found = enforced.find((limit) => limit.name === name)
  if (found !== undefined) return found
  const names = enforced.map((limit) => limit.name).join(', ')
  const what = name === undefined ? 'is missing, and the policy has several' : `${name} is not one`
  throw refusal('limit', `${what}: ${names}`)
}

/** What an action is about; of two about the same the later counts. */
function targetOf(effect: EmergencyEffect): string {
  switch (effect.kind) {
    case 'block':
    case 'allow':
      return `tenant ${effect.value}`
    case 'multiply':
    case 'fix':
      return `numbers ${effect.limit}`
    default:
      return `loans ${effect.limit ?? ''}`
  }
}

function record(
  plane: PlaneChange,
  action: string,
  { domain, name }: { readonly domain: string; readonly name: string },
  { before, after }: { readonly before: unknown; readonly after: unknown },
): void {
  const objectId = `${domain}/${name}`
  const documents = [{ kind: 'emergency', id: objectId, before, after }]
  plane.record({ action, objectKind: 'policy', objectId, before, after, documents })
}

function tooMany({ domain, name }: StoredPolicy): QuotaError {
  const message = `${domain}/${name} has ${EMERGENCY_ACTIONS_MAX} emergency actions: end some, or use overrides`
  return new QuotaError('QUOTA_IN_USE', message)
}

function refusal(field: string, message: string, fix = EMERGENCY_FIXES[field] ?? ''): QuotaError {
  return invalidInput([{ field, message, fix }])
}
