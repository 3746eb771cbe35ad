/** What an operator asks of a region's life: drain it, bring it back, or certify that it is gone. */
import { QuotaError } from '../../shared/errors.ts'
import type { ChangeContext } from '../../shared/postgres/audit.ts'
import type { Db, Trx } from '../../shared/postgres/plane.ts'
import { changePlane, type PlaneChange } from '../../shared/postgres/plane-change.ts'
import {
  deleteCertificate,
  insertCertificate,
  setRegionState,
} from '../../shared/postgres/region-life.ts'
import { listRegions, type StoredRegion } from '../../shared/postgres/regions.ts'
import type { RegionState } from '../../shared/postgres/tables.ts'
import type { LiveView } from './live-view.ts'
import { checkPrecondition, type Precondition } from './preconditions.ts'
import { requireRegion } from './region-changes.ts'

export interface LifeChange {
  readonly id: string
  /** Null: whatever its revision, since the change says all that it rests on. */
  readonly precondition: Precondition | null
}

/** The operator's word: whoever it is swears that nothing of the region is in use and nothing will be. */
export interface CertificateBody {
  readonly certifiedBy: string
  readonly reason: string
}

/**
 * Begins to move the region's part of every limit to the others, until `resumesAt` where one is given. Of a region that
 * is drained already only that time is changed, so repeating it is harmless. Refused for the last region that takes
 * part: there is nobody to move the parts to.
 */
export async function drainRegion(
  plane: PlaneChange,
  change: LifeChange & { readonly resumesAt: Date | null },
): Promise<StoredRegion> {
  const { resumesAt } = change
  return await changeState(plane, change, async (trx, region) => {
    if (region.state === 'draining' || region.state === 'drained') {
      if (region.resumesAt?.getTime() === resumesAt?.getTime()) return null
      return { state: region.state, resumesAt, action: 'region.drain', after: {} }
    }
    refuseRemoving(region)
    await refuseLast(trx, region)
    return { state: 'draining', resumesAt, action: 'region.drain', after: {} }
  })
}

/** Begins to move back what the splits give the region. Repeating it is harmless. */
export async function resumeRegion(
  plane: PlaneChange,
  change: LifeChange,
  action: 'region.resume' | 'region.expire' = 'region.resume',
): Promise<StoredRegion> {
  return await changeState(plane, change, async (trx, region) => {
    if (region.state === 'active' || region.state === 'resuming') return null
    refuseRemoving(region)
    await deleteCertificate(trx, region.id)
    return { state: 'resuming', action, after: {} }
  })
}

const EXPIRY: ChangeContext = {
  actor: 'admin',
  requestId: 'drain-ends',
  reason: 'the time for which the region was to be drained is over',
}

/** Resumes the regions whose drain was for a time that is over at `nowMs`. True when there was one. */
export async function resumeExpired(db: Db, nowMs: number): Promise<boolean> {
  const isDue = ({ resumesAt }: StoredRegion): boolean =>
    resumesAt !== null && resumesAt.getTime() <= nowMs
  // Nothing is locked while none is due.
  if (!(await listRegions(db)).some(isDue)) return false
  return await changePlane(db, EXPIRY, async (plane) => {
    // Another admin may have been faster, or an operator given it more time.
    const due = (await listRegions(plane.trx)).filter(isDue)
    for (const { id } of due) {
      await resumeRegion(plane, { id, precondition: null }, 'region.expire')
    }
    return due.length > 0
  })
}

/**
 * Takes the operator's certificate that a region is fenced off; from here on it is on its way out. Refused while the
 * region is heard: then it is not fenced off, and its units may be in use.
 */
export async function certifyRegion(
  plane: PlaneChange,
  change: LifeChange & {
    readonly certificate: CertificateBody
    readonly live: LiveView
    readonly nowMs: number
  },
): Promise<StoredRegion> {
  const { certificate, live, nowMs } = change
  return await changeState(plane, change, async (trx, region) => {
    if (region.state === 'removing') return null
    refuseReporting(region, live, nowMs)
    await refuseLast(trx, region)
    const certifiedAt = new Date(nowMs)
    await insertCertificate(trx, { ...certificate, region: region.id, certifiedAt })
    return { state: 'removing', action: 'region.certify', after: { certificate } }
  })
}

interface StateChange {
  readonly state: RegionState
  /** Left out: never by itself. */
  readonly resumesAt?: Date | null
  readonly action: string
  readonly after: object
}

async function changeState(
  plane: PlaneChange,
  { id, precondition }: LifeChange,
  decide: (trx: Trx, region: StoredRegion) => Promise<StateChange | null>,
): Promise<StoredRegion> {
  const { trx } = plane
  const before = await requireRegion(trx, id)
  if (precondition !== null) checkPrecondition(precondition, `region ${id}`, before)
  const change = await decide(trx, before)
  if (change === null) return before
  const { state, resumesAt = null, action } = change
  await setRegionState(trx, { id, state, resumesAt, revision: plane.takeRevision() })
  const region = await requireRegion(trx, id)
  const after = { ...region, ...change.after }
  plane.record({ action, objectKind: 'region', objectId: id, before, after })
  return region
}

function refuseRemoving(region: StoredRegion): void {
  if (region.state !== 'removing') return
  throw new QuotaError(
    'QUOTA_REGION_STATE',
    `region ${region.id} is being removed on an operator's certificate: wait until GET /v1/regions/${region.id} answers 404, then register it anew; it starts empty`,
  )
}

function refuseReporting(region: StoredRegion, live: LiveView, nowMs: number): void {
  const { isReporting, ageMs } = live.health(region.id, nowMs)
  if (!isReporting) return
  throw new QuotaError(
    'QUOTA_REGION_STATE',
    `region ${region.id} was heard ${ageMs} ms ago, so it is not fenced off: drain it with POST /v1/regions/${region.id}/drain, or stop its traffic, its sync daemons and its Redis and try again in some seconds`,
  )
}

async function refuseLast(trx: Trx, region: StoredRegion): Promise<void> {
  const present = (await listRegions(trx)).filter(
    ({ id, state }) => id !== region.id && (state === 'active' || state === 'resuming'),
  )
  if (present.length > 0) return
  throw new QuotaError(
    'QUOTA_REGION_STATE',
    `region ${region.id} is the last that takes part: register another (PUT /v1/regions/…) or resume one (POST /v1/regions/…/resume) to take over its part of the limits`,
  )
}
