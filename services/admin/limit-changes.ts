/** Brings the stored limits of policies to what their documents say, within the transaction of the change. */
import type { Attendance } from '../../shared/core/base-leaving.ts'
import { longestWindowMs } from '../../shared/core/calendar.ts'
import { type Holding, holdingOf } from '../../shared/core/enforced.ts'
import { type BaseSplit, hasBurst, type Mode } from '../../shared/core/policy.ts'
import { type InputProblem, QuotaError } from '../../shared/errors.ts'
import type { Trx } from '../../shared/postgres/plane.ts'
import type { LimitValues } from '../../shared/postgres/policies.ts'
import {
  deleteLimits,
  type EpochValues,
  insertLimits,
  openEpochs,
  updateLimits,
} from '../../shared/postgres/policy-batch.ts'
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
  /** Where the document stands in the request, for problems. */
  readonly at: string
}

interface NewLimit {
  readonly values: LimitValues
  readonly base: BaseSplit
}

/** What is to be written of the limits of one policy. */
export interface LimitPlan {
  readonly removed: number[]
  readonly updated: { readonly id: number; readonly values: LimitValues }[]
  readonly added: NewLimit[]
  /** New candidates, each with the place of its limit, whose id may be new too. */
  readonly candidates: (NewLimit & { readonly of: number })[]
  readonly epochs: EpochValues[]
  /** Limits that stay by name and whose counters begin anew. */
  readonly restarted: string[]
}

/**
 * What becomes of the limits and candidates of one policy.
 *
 * Throws QUOTA_EPOCH_OPEN when a split would have to move before its last move has ended everywhere.
 */
export function planLimits(changes: LimitChanges): LimitPlan {
  const { before, modeBefore, document } = changes
  const plan: LimitPlan = {
    removed: [],
    updated: [],
    added: [],
    candidates: [],
    epochs: [],
    restarted: [],
  }
  const enforced = before.filter((limit) => limit.candidateOf === null)
  const keptIds = new Set<number>()
  for (const [position, limit] of document.limits.entries()) {
    const kept = enforced.find((old) =>
      isSameCounter({ ...old, mode: modeBefore }, limit, document),
    )
    if (kept !== undefined) keptIds.add(kept.id)
    else if (enforced.some(({ name }) => name === limit.name)) plan.restarted.push(limit.name)
    const values = valuesOf(changes.policyId, position, limit)
    planLimit(plan, changes, { before: kept, values, index: position })
    if (limit.candidate === undefined) continue
    const candidate = before.find((old) => kept !== undefined && old.candidateOf === kept.id)
    if (candidate !== undefined) keptIds.add(candidate.id)
    const { capacity, burst = null } = limit.candidate
    const trial = {
      ...valuesOf(changes.policyId, document.limits.length + position, limit),
      capacity,
      burst,
      candidateOf: kept?.id ?? null,
    }
    planLimit(plan, changes, { before: candidate, values: trial, index: position, of: position })
  }
  plan.removed.push(...before.filter(({ id }) => !keptIds.has(id)).map(({ id }) => id))
  return plan
}

/** Carries out the plans of any number of policies. */
export async function writeLimits(trx: Trx, plans: readonly LimitPlan[]): Promise<void> {
  // First, because a limit of another algorithm takes over the name.
  await deleteLimits(
    trx,
    plans.flatMap(({ removed }) => removed),
  )
  await updateLimits(
    trx,
    plans.flatMap(({ updated }) => updated),
  )
  const added = plans.flatMap((plan) => plan.added)
  const ids = await insertLimits(trx, added)
  const idAt = new Map(added.map(({ values }, index) => [placeOf(values), ids[index] ?? 0]))
  const candidates = plans.flatMap((plan) =>
    plan.candidates.map(({ values, base, of }) => {
      const limitId = values.candidateOf ?? idAt.get(placeOf({ ...values, position: of })) ?? 0
      return { values: { ...values, candidateOf: limitId }, base }
    }),
  )
  await insertLimits(trx, candidates)
  await openEpochs(
    trx,
    plans.flatMap(({ epochs }) => epochs),
  )
}

function placeOf({ policyId, position }: Pick<LimitValues, 'policyId' | 'position'>): string {
  return `${policyId} ${position}`
}

interface LimitWrite {
  readonly before: StoredLimit | undefined
  readonly values: LimitValues
  /** Place in the document, for problems. */
  readonly index: number
  /** Place of the limit beside which this one is evaluated; absent: it is enforced. */
  readonly of?: number
}

function planLimit(plan: LimitPlan, changes: LimitChanges, write: LimitWrite): void {
  const { before, values, index, of } = write
  const base = documentBase(values, before, changes.attendance)
  if (before === undefined) {
    if (of === undefined) plan.added.push({ values, base })
    else plan.candidates.push({ values, base, of })
    return
  }
  plan.updated.push({ id: before.id, values })
  if (isSameSplit(before.base, base)) return
  if (before.previousBase !== null) throw epochOpen(changes, before, index)
  plan.epochs.push(epochOf(before, base, holdingOf(changes.document, values)))
}

/** Only shares must not overlap; floors of long windows are pinned, and an estimate has no parts. */
function epochOf(before: StoredLimit, base: BaseSplit, holding: Holding): EpochValues {
  return { limitId: before.id, epoch: before.epoch + 1, base, isClosed: holding !== 'share' }
}

function epochOpen(changes: LimitChanges, before: StoredLimit, index: number): QuotaError {
  const { present, away } = changes.attendance
  const members = [...present, ...away].sort()
  const awaited = members.filter((region) => !before.adopted.includes(region))
  const problem: InputProblem = {
    field: `${changes.at}limits[${index}].split`,
    message: `epoch ${before.epoch} of limit ${before.name} still awaits ${awaited.join(', ')}`,
    fix: hasBurst(before.algorithm)
      ? 'try again in some seconds, once these regions are heard'
      : 'try again once the running window has ended and these regions are heard',
  }
  return new QuotaError('QUOTA_EPOCH_OPEN', problem.message, { problems: [problem] })
}

/** What is held in another way, or in other parts, counts otherwise, as another algorithm does. */
function isSameCounter(
  stored: StoredLimit & { readonly mode: Mode | null },
  limit: LimitDocument,
  document: PolicyDocument,
): boolean {
  if (stored.name !== limit.name || stored.algorithm !== limit.algorithm) return false
  // A part of other parts would remember what all of the key never spent, and others nothing.
  if (stored.shards !== limit.shards) return false
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
