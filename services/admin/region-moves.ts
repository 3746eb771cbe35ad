/**
 * Carries out what operators asked of regions, step by step: opens base epochs, lets certificates stand for the
 * adoptions of regions that are gone, and says when a region is drained, back, or out.
 *
 * Every step rests on what Postgres holds, so any admin may take the next one. Only the waiting of a certificate is
 * measured here, by this process's own clock, and begins anew with it.
 */
import { type Attendance, baseFor, weightsOf } from '../../shared/core/base-leaving.ts'
import { apportion } from '../../shared/core/base-split.ts'
import { holdingOf } from '../../shared/core/enforced.ts'
import { LENDER_WAIT_MS } from '../../shared/core/ledger/constants.ts'
import { drainEnd } from '../../shared/core/ledger/homes.ts'
import type { BaseSplit, RegionId } from '../../shared/core/policy.ts'
import type { ChangeContext } from '../../shared/postgres/audit.ts'
import { recordDeparture } from '../../shared/postgres/departures.ts'
import { closeEpoch, openEpoch, recordAdoption } from '../../shared/postgres/epochs.ts'
import { voidIncarnations } from '../../shared/postgres/incarnations.ts'
import type { Db, Trx } from '../../shared/postgres/plane.ts'
import {
  changePlane,
  type DocumentChange,
  type PlaneChange,
  type PlaneRecord,
} from '../../shared/postgres/plane-change.ts'
import { touchPolicy } from '../../shared/postgres/policies.ts'
import {
  isSameSplit,
  type StoredLimit,
  type StoredPolicy,
} from '../../shared/postgres/policy-rows.ts'
import {
  type Certificate,
  deleteCertificate,
  listCertificates,
  listPoliciesOf,
  setRegionState,
  setSplit,
} from '../../shared/postgres/region-life.ts'
import { deleteRegion, listRegions, type StoredRegion } from '../../shared/postgres/regions.ts'
import type { RegionState } from '../../shared/postgres/tables.ts'
import { weightSteps, weightsOfSteps } from '../../shared/protocol/policy.ts'
import { closeAdoptedEpochs } from './adoptions.ts'
import type { LiveView } from './live-view.ts'
import { documentOf } from './views/policy.ts'

/**
 * Most epochs that one step opens: the step stays well under a second, and the records of the regions, which name
 * every epoch that they adopted, stay small. A plane of ten thousand limits is moved within a minute.
 */
const EPOCHS_PER_STEP_MAX = 500

export interface RegionMovesOptions {
  readonly db: Db
  readonly live: LiveView
  readonly wallMs: () => number
  readonly monotonicMs: () => number
}

export class RegionMoves {
  readonly #options: RegionMovesOptions
  /** When this process first saw a certificate, by its own clock. */
  readonly #seen = new Map<string, number>()

  constructor(options: RegionMovesOptions) {
    this.#options = options
  }

  /** One step for all regions; true when it changed something. Nothing is locked while nobody is on the move. */
  async stepOnce(): Promise<boolean> {
    const { db } = this.#options
    const moving = (await listRegions(db)).filter(isMoving)
    if (moving.length === 0) {
      this.#seen.clear()
      return false
    }
    return await changePlane(db, CONTEXT, (plane) => this.#advance(plane))
  }

  async #advance(plane: PlaneChange): Promise<boolean> {
    const { trx } = plane
    await this.#voidFalseCertificates(plane)
    const regions = await listRegions(trx)
    const attendance = attendanceOf(regions)
    const moving = regions.filter(isMoving)
    const names = moving.map(({ id }) => id)
    const returning = moving.filter(({ state }) => state === 'resuming').map(({ id }) => id)
    const before = await listPoliciesOf(trx, names)
    const opened = await openEpochs(plane, before, { attendance, returning })
    const certified = await this.#adoptForCertified(plane, await listPoliciesOf(trx, names))
    if (opened + certified > 0) await closeAdoptedEpochs(plane)
    const policies = await listPoliciesOf(trx, names)
    let finished = 0
    for (const region of moving) {
      if (policies.some((policy) => isUnfinished(policy, region, attendance))) continue
      if (region.state === 'removing' && !(await this.#isCertifiedLongEnough(trx, region.id)))
        continue
      await this.#finish(plane, region, policies)
      finished++
    }
    return opened + certified + finished > 0
  }

  /** A region that is heard after all is not fenced off: its certificate is void, and it is drained instead. */
  async #voidFalseCertificates(plane: PlaneChange): Promise<void> {
    const { trx } = plane
    for (const certificate of await listCertificates(trx)) {
      const { region, certifiedAt } = certificate
      // Its wait begins when it is first seen.
      this.#hasWaited(certificate)
      const heardAtMs = this.#options.live.heard(region)?.heardAtMs ?? Number.NEGATIVE_INFINITY
      if (heardAtMs <= certifiedAt.getTime()) continue
      await deleteCertificate(trx, region)
      const revision = plane.takeRevision()
      await setRegionState(trx, { id: region, state: 'draining', revision, resumesAt: null })
      record(plane, 'region.certificate-void', region, { before: certificate, after: null })
    }
  }

  /** Writes down the adoptions that certificates stand for; the number of those that are new. */
  async #adoptForCertified(plane: PlaneChange, policies: readonly StoredPolicy[]): Promise<number> {
    const { trx } = plane
    let adopted = 0
    for (const certificate of await listCertificates(trx)) {
      const due = policies
        .flatMap((policy) => policy.limits)
        .filter(
          (limit) =>
            limit.previousBase !== null &&
            !limit.adopted.includes(certificate.region) &&
            this.#counts(certificate, limit),
        )
      if (due.length === 0) continue
      await this.#voidPast(plane, certificate.region)
      for (const { id: limitId, epoch } of due) {
        await recordAdoption(trx, { region: certificate.region, limitId, epoch })
      }
      adopted += due.length
    }
    return adopted
  }

  /** What the region's earlier incarnations know must never be used again once others may have its units. */
  async #voidPast(plane: PlaneChange, region: RegionId): Promise<void> {
    const { trx } = plane
    const { live, wallMs } = this.#options
    const heard = live.heard(region)?.record.mark.incarnation ?? 0
    const leastIncarnation = await voidIncarnations(trx, region, { heard, nowMs: wallMs() })
    await recordDeparture(trx, { region, revision: plane.takeRevision(), leastIncarnation })
  }

  /**
   * True when a certificate stands for an adoption of a limit: everything that the region lent or borrowed has ended,
   * and so has every window in which it may have been spent.
   */
  #counts(certificate: Certificate, limit: StoredLimit): boolean {
    if (!this.#hasWaited(certificate)) return false
    const endMs = drainEnd(limit, certificate.certifiedAt.getTime() + LENDER_WAIT_MS)
    return endMs === null || this.#options.wallMs() >= endMs
  }

  #hasWaited({ region, certifiedAt }: Certificate): boolean {
    const key = `${region} ${certifiedAt.getTime()}`
    const nowMs = this.#options.monotonicMs()
    const seenMs = this.#seen.get(key) ?? nowMs
    this.#seen.set(key, seenMs)
    return nowMs - seenMs >= LENDER_WAIT_MS
  }

  async #isCertifiedLongEnough(trx: Trx, region: RegionId): Promise<boolean> {
    const certificate = (await listCertificates(trx)).find((one) => one.region === region)
    return certificate !== undefined && this.#hasWaited(certificate)
  }

  async #finish(
    plane: PlaneChange,
    region: StoredRegion,
    policies: readonly StoredPolicy[],
  ): Promise<void> {
    const { id } = region
    if (region.state === 'removing') {
      await this.#voidPast(plane, id)
      const splits = await takeOut(plane, region, policies)
      const gone = { kind: 'region', id, before: region, after: null }
      record(plane, 'region.remove', id, { ...gone, documents: [gone, ...splits] })
      await closeAdoptedEpochs(plane)
      return
    }
    const state: RegionState = region.state === 'draining' ? 'drained' : 'active'
    const after = { ...region, state, revision: plane.takeRevision() }
    await setRegionState(plane.trx, after)
    const action = state === 'drained' ? 'region.drained' : 'region.resumed'
    record(plane, action, id, { before: region, after })
  }
}

/** Who is to have a part of limits, and who is not. */
export function attendanceOf(regions: readonly StoredRegion[]): Attendance {
  const isAway = ({ state }: StoredRegion): boolean => state !== 'active' && state !== 'resuming'
  return {
    away: new Set(regions.filter(isAway).map(({ id }) => id)),
    present: regions.filter((region) => !isAway(region)).map(({ id }) => id),
  }
}

/** Limits of these policies that still have to move for a region. */
export function unfinishedLimits(
  policies: readonly StoredPolicy[],
  region: StoredRegion,
  attendance: Attendance,
): readonly StoredLimit[] {
  return policies.flatMap((policy) =>
    policy.limits.filter((limit) => isLimitUnfinished(limit, region, attendance)),
  )
}

/**
 * Takes a region out of the plane: the splits that name it go on without it, in the proportions that are left, and
 * the others learn that it is no member any more. Gives the policies that changed. The caller has seen that the
 * region has no part of any limit.
 */
export async function takeOut(
  plane: PlaneChange,
  { id }: StoredRegion,
  policies: readonly StoredPolicy[],
): Promise<readonly DocumentChange[]> {
  const { trx } = plane
  const changed: DocumentChange[] = []
  const { present } = attendanceOf((await listRegions(trx)).filter((other) => other.id !== id))
  const without: Attendance = { away: new Set([id]), present }
  for (const policy of policies) {
    const named = policy.limits.filter(({ split }) => id in split)
    const splits = new Map<number, StoredLimit['split']>()
    for (const limit of named) {
      const weights = weightsOf(weightSteps(limit.split), without)
      if (weights === null) continue
      const split = weightsOfSteps((total) => apportion(weights, total))
      await setSplit(trx, limit.id, split)
      splits.set(limit.id, split)
    }
    if (named.length === 0) continue
    await touchPolicy(trx, policy.id, plane.takeRevision())
    changed.push(splitChange(policy, splits))
  }
  await deleteRegion(trx, id)
  await recordDeparture(trx, {
    region: id,
    revision: plane.takeRevision(),
    leastIncarnation: null,
  })
  return changed
}

function splitChange(
  policy: StoredPolicy,
  splits: ReadonlyMap<number, StoredLimit['split']>,
): DocumentChange {
  const limits = policy.limits.map((limit) => ({
    ...limit,
    split: splits.get(limit.id) ?? limit.split,
  }))
  return {
    kind: 'policy',
    id: `${policy.domain}/${policy.name}`,
    before: documentOf(policy),
    after: documentOf({ ...policy, limits }),
  }
}

const CONTEXT: ChangeContext = {
  actor: 'admin',
  requestId: 'region-moves',
  reason: 'a region is drained, brought back or removed as asked',
}

function record(
  plane: PlaneChange,
  action: string,
  objectId: RegionId,
  change: Pick<PlaneRecord, 'before' | 'after' | 'documents'>,
): void {
  const { before, after, documents } = change
  const said = { action, objectKind: 'region', objectId, before, after } as const
  plane.record({ ...said, ...(documents !== undefined && { documents }) })
}

/** True while a region leaves or comes back. */
export function isMoving({ state }: StoredRegion): boolean {
  return state === 'draining' || state === 'resuming' || state === 'removing'
}

interface Moves {
  readonly attendance: Attendance
  readonly returning: readonly RegionId[]
}

/** Opens the epochs that are due, up to the bound of a step; the number of those. */
async function openEpochs(
  plane: PlaneChange,
  policies: readonly StoredPolicy[],
  moves: Moves,
): Promise<number> {
  const { trx } = plane
  let opened = 0
  for (const policy of policies) {
    if (opened >= EPOCHS_PER_STEP_MAX) break
    const due = policy.limits.flatMap((limit) => {
      const base = nextBase(limit, moves)
      return limit.previousBase !== null || isSameSplit(base, limit.base) ? [] : [{ limit, base }]
    })
    for (const { limit, base } of due) await moveBase(trx, policy, limit, base)
    if (due.length > 0) await touchPolicy(trx, policy.id, plane.takeRevision())
    opened += due.length
  }
  return opened
}

/** Begins the next epoch of a limit; one that is not held in shares has moved at once. */
export async function moveBase(
  trx: Trx,
  policy: StoredPolicy,
  limit: StoredLimit,
  base: BaseSplit,
): Promise<void> {
  const next = { limitId: limit.id, epoch: limit.epoch + 1 }
  await openEpoch(trx, { ...next, base })
  if (holdingOf(policy, limit) !== 'share') await closeEpoch(trx, next.limitId, next.epoch)
}

function nextBase(limit: StoredLimit, { attendance, returning }: Moves): BaseSplit {
  const split = weightSteps(limit.split)
  return baseFor({ ...limit, split }, attendance, returning)
}

function isUnfinished(policy: StoredPolicy, region: StoredRegion, attendance: Attendance): boolean {
  return unfinishedLimits([policy], region, attendance).length > 0
}

function isLimitUnfinished(
  limit: StoredLimit,
  { id, state }: StoredRegion,
  attendance: Attendance,
): boolean {
  if (state === 'resuming') {
    // Whether an open epoch gives the region its part is known once it is closed.
    if (limit.previousBase !== null) return (limit.split[id] ?? 0) > 0
    return !isSameSplit(nextBase(limit, { attendance, returning: [id] }), limit.base)
  }
  if (state === 'active') return false
  return id in limit.base || (limit.previousBase !== null && id in limit.previousBase)
}
