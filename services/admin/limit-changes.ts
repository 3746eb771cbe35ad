/** Brings the stored limits of one policy to what its document says, within the transaction of the change. */
import type { Attendance } from '../../shared/core/base-leaving.ts'
import { longestWindowMs } from '../../shared/core/calendar.ts'
import { type Holding, holdingOf } from '../../shared/core/enforced.ts'
import { type BaseSplit, hasBurst, type Mode } from '../../shared/core/policy.ts'
import { type InputProblem, QuotaError } from '../../shared/errors.ts'
import { closeEpoch, openEpoch } from '../../shared/postgres/epochs.ts'
import type { Trx } from '../../shared/postgres/plane.ts'
import {
  deleteLimits,
  insertLimit,
  type LimitValues,
  updateLimit,
} from '../../shared/postgres/policies.ts'
import { isSameSplit, type StoredLimit } from '../../shared/postgres/policy-rows.ts'
import type { LimitDocument, PolicyDocument } from '../../shared/protocol/policy.ts'
import { documentBase } from './document-base.ts'

export interface LimitChanges {
  readonly policyId: number
  readonly before: readonly StoredLimit[]
  /** Null for a policy that is created. */
  readonly modeBefore: Mode | null
  readonly document: PolicyDocument
  readonly attendance: Attendance
}

/**
 * Adds, changes and removes limits and their candidates.
 *
 * Throws QUOTA_EPOCH_OPEN when a split would have to move before its last move has ended everywhere.
 */
export async function writeLimits(trx: Trx, changes: LimitChanges): Promise<void> {
  const { before, modeBefore, document } = changes
  const enforced = before.filter((limit) => limit.candidateOf === null)
  const kept = document.limits.map((limit) =>
    enforced.find((old) => isSameCounter({ ...old, mode: modeBefore }, limit, document)),
  )
  const keptIds = new Set(kept.map((limit) => limit?.id))
  const candidates = document.limits.map((limit, position) =>
    limit.candidate === undefined
      ? undefined
      : before.find((old) => old.candidateOf !== null && old.candidateOf === kept[position]?.id),
  )
  for (const candidate of candidates) if (candidate !== undefined) keptIds.add(candidate.id)
  // First, because a limit of another algorithm takes over the name.
  await deleteLimits(
    trx,
    before.filter((limit) => !keptIds.has(limit.id)).map((limit) => limit.id),
  )
  for (const [position, limit] of document.limits.entries()) {
    const id = await writeLimit(trx, changes, {
      before: kept[position],
      values: valuesOf(changes.policyId, position, limit),
      index: position,
    })
    if (limit.candidate === undefined) continue
    const { capacity, burst = null } = limit.candidate
    const values = valuesOf(changes.policyId, document.limits.length + position, limit)
    await writeLimit(trx, changes, {
      before: candidates[position],
      values: { ...values, capacity, burst, candidateOf: id },
      index: position,
    })
  }
}

interface LimitWrite {
  readonly before: StoredLimit | undefined
  readonly values: LimitValues
  /** Place in the document, for problems. */
  readonly index: number
}

/** Gives the limit's id. */
async function writeLimit(trx: Trx, changes: LimitChanges, write: LimitWrite): Promise<number> {
  const { before, values, index } = write
  const base = documentBase(values, before, changes.attendance)
  if (before === undefined) return await insertLimit(trx, values, base)
  await updateLimit(trx, before.id, values)
  const { present, away } = changes.attendance
  const members = [...present, ...away].sort()
  const holding = holdingOf(changes.document, values)
  await moveBase(trx, { before, base, index, members, holding })
  return before.id
}

interface BaseMove {
  readonly before: StoredLimit
  readonly base: BaseSplit
  readonly index: number
  readonly members: readonly string[]
  readonly holding: Holding
}

async function moveBase(trx: Trx, move: BaseMove): Promise<void> {
  const { before, base } = move
  if (isSameSplit(before.base, base)) return
  if (before.previousBase !== null) throw epochOpen(move)
  const limitId = before.id
  const epoch = before.epoch + 1
  await openEpoch(trx, { limitId, epoch, base })
  // Only shares must not overlap; floors of long windows are pinned, and an estimate has no parts.
  if (move.holding !== 'share') await closeEpoch(trx, limitId, epoch)
}

function epochOpen({ before, members, index }: BaseMove): QuotaError {
  const awaited = members.filter((region) => !before.adopted.includes(region))
  const problem: InputProblem = {
    field: `limits[${index}].split`,
    message: `epoch ${before.epoch} of limit ${before.name} still awaits ${awaited.join(', ')}`,
    fix: hasBurst(before.algorithm)
      ? 'try again in some seconds, once these regions are heard'
      : 'try again once the running window has ended and these regions are heard',
  }
  return new QuotaError('QUOTA_EPOCH_OPEN', problem.message, { problems: [problem] })
}

/** What is held in another way counts otherwise, as another algorithm does. */
function isSameCounter(
  stored: StoredLimit & { readonly mode: Mode | null },
  limit: LimitDocument,
  document: PolicyDocument,
): boolean {
  if (stored.name !== limit.name || stored.algorithm !== limit.algorithm) return false
  const holding = holdingOf(document, { ...limit, windowMs: windowMsOf(limit) })
  return stored.mode !== null && holdingOf({ mode: stored.mode }, stored) === holding
}

function valuesOf(policyId: number, position: number, limit: LimitDocument): LimitValues {
  const { name, algorithm, capacity, split, floorPercent, shards, leases } = limit
  const calendar = limit.calendar ?? null
  const rule = { name, algorithm, calendar, shards, leases, candidateOf: null }
  const numbers = { capacity, windowMs: windowMsOf(limit), burst: limit.burst ?? null }
  return { policyId, position, ...rule, ...numbers, split, floorPercent }
}

/** Of a calendar the longest window, of a concurrency limit the longest hold. */
function windowMsOf(limit: LimitDocument): number {
  if (limit.calendar !== undefined) return longestWindowMs(limit.calendar.unit)
  return limit.windowMs ?? limit.holdMs ?? 1
}
