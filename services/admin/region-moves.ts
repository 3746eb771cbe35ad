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
import { type ChangeContext, recordAudit } from '../../shared/postgres/audit.ts'
import { recordDeparture } from '../../shared/postgres/departures.ts'
import { closeEpoch, openEpoch, recordAdoption } from '../../shared/postgres/epochs.ts'
import { voidIncarnations } from '../../shared/postgres/incarnations.ts'
import { type Db, lockPlane, type Trx, takeRevision } from '../../shared/postgres/plane.ts'
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
    return await db.transaction().execute(async (trx) => {
      await lockPlane(trx)
      return await this.#advance(trx)
    })
  }

  async #advance(trx: Trx): Promise<boolean> {
    await this.#voidFalseCertificates(trx)
    const regions = await listRegions(trx)
    const attendance = attendanceOf(regions)
    const moving = regions.filter(isMoving)
    const names = moving.map(({ id }) => id)
    const returning = moving.filter(({ state }) => state === 'resuming').map(({ id }) => id)
    const before = await listPoliciesOf(trx, names)
    const opened = await openEpochs(trx, before, { attendance, returning })
    const certified = await this.#adoptForCertified(trx, await listPoliciesOf(trx, names))
    if (opened + certified > 0) await closeAdoptedEpochs(trx, CONTEXT)
    const policies = await listPoliciesOf(trx, names)
    let finished = 0
    for (const region of moving) {
      if (policies.some((policy) => isUnfinished(policy, region, attendance))) continue
      if (region.state === 'removing' && !(await this.#isCertifiedLongEnough(trx, region.id)))
        continue
      await this.#finish(trx, region, policies)
      finished++
    }
    return opened + certified + finished > 0
  }

  /** A region that is heard after all is not fenced off: its certificate is void, and it is drained instead. */
  async #voidFalseCertificates(trx: Trx): Promise<void> {
    for (const certificate of await listCertificates(trx)) {
      const { region, certifiedAt } = certificate
      // Its wait begins when it is first seen.
      this.#hasWaited(certificate)
      const heardAtMs = this.#options.live.heard(region)?.heardAtMs ?? Number.NEGATIVE_INFINITY
      if (heardAtMs <= certifiedAt.getTime()) continue
      await deleteCertificate(trx, region)
      await setRegionState(trx, {
        id: region,
        state: 'draining',
        revision: await takeRevision(trx),
      })
      await audit(trx, 'region.certificate-void', region, { before: certificate, after: null })
    }
  }

  /** Writes down the adoptions that certificates stand for; the number of those that are new. */
  async #adoptForCertified(trx: Trx, policies: readonly StoredPolicy[]): Promise<number> {
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
      await this.#voidPast(trx, certificate.region)
      for (const { id: limitId, epoch } of due) {
        await recordAdoption(trx, { region: certificate.region, limitId, epoch })
      }
      adopted += due.length
    }
    return adopted
  }

  /** What the region's earlier incarnations know must never be used again once others may have its units. */
  async #voidPast(trx: Trx, region: RegionId): Promise<void> {
    const { live, wallMs } = this.#options
    const heard = live.heard(region)?.record.mark.incarnation ?? 0
    const leastIncarnation = await voidIncarnations(trx, region, { heard, nowMs: wallMs() })
    await recordDeparture(trx, { region, revision: await takeRevision(trx), leastIncarnation })
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

  async #finish(trx: Trx, region: StoredRegion, policies: readonly StoredPolicy[]): Promise<void> {
    const { id } = region
    if (region.state === 'removing') {
      await this.#voidPast(trx, id)
      await takeOut(trx, region, policies)
      await audit(trx, 'region.remove', id, { before: region, after: null })
      await closeAdoptedEpochs(trx, CONTEXT)
      return
    }
    const state: RegionState = region.state === 'draining' ? 'drained' : 'active'
    await setRegionState(trx, { id, state, revision: await takeRevision(trx) })
    const action = state === 'drained' ? 'region.drained' : 'region.resumed'
    await audit(trx, action, id, { before: region, after: { ...region, state } })
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
 * the others learn that it is no member any more. The caller has seen that it has no part of any limit.
 */
export async function takeOut(
  trx: Trx,
  { id }: StoredRegion,
  policies: readonly StoredPolicy[],
): Promise<void> {
  const { present } = attendanceOf((await listRegions(trx)).filter((other) => other.id !== id))
  const without: Attendance = { away: new Set([id]), present }
  for (const policy of policies) {
    const named = policy.limits.filter(({ split }) => id in split)
    for (const limit of named) {
      const weights = weightsOf(weightSteps(limit.split), without)
      if (weights === null) continue
      await setSplit(
        trx,
        limit.id,
        weightsOfSteps((total) => apportion(weights, total)),
      )
    }
    if (named.length > 0) await touchPolicy(trx, policy.id, await takeRevision(trx))
  }
  await deleteRegion(trx, id)
  await recordDeparture(trx, {
    region: id,
    revision: await takeRevision(trx),
    leastIncarnation: null,
  })
}

const CONTEXT: ChangeContext = {
  actor: 'admin',
  requestId: 'region-moves',
  reason: 'a region is drained, brought back or removed as asked',
}

async function audit(
  trx: Trx,
  action: string,
  objectId: RegionId,
  change: { readonly before: unknown; readonly after: unknown },
): Promise<void> {
  await recordAudit(trx, CONTEXT, { action, objectKind: 'region', objectId, ...change })
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
  trx: Trx,
  policies: readonly StoredPolicy[],
  moves: Moves,
): Promise<number> {
  let opened = 0
  for (const policy of policies) {
    if (opened >= EPOCHS_PER_STEP_MAX) break
    const due = policy.limits.flatMap((limit) => {
      const base = nextBase(limit, moves)
      return limit.previousBase !== null || isSameSplit(base, limit.base) ? [] : [{ limit, base }]
    })
    for (const { limit, base } of due) await moveBase(trx, policy, limit, base)
    if (due.length > 0) await touchPolicy(trx, policy.id, await takeRevision(trx))
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
