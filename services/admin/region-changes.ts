import { REGIONS_MAX } from '../../shared/core/units.ts'
import { QuotaError } from '../../shared/errors.ts'
import type { Db, Trx } from '../../shared/postgres/plane.ts'
import type { PlaneChange } from '../../shared/postgres/plane-change.ts'
import type { StoredPolicy } from '../../shared/postgres/policy-rows.ts'
import { listPoliciesOf } from '../../shared/postgres/region-life.ts'
import {
  findRegion,
  listRegions,
  type StoredRegion,
  writeRegion,
} from '../../shared/postgres/regions.ts'
import { closeAdoptedEpochs } from './adoptions.ts'
import { checkPrecondition, type Precondition, preconditionRequired } from './preconditions.ts'
import { takeOut } from './region-moves.ts'

/** Policies that a refusal names; the first few show what is in the way. */
const USERS_NAMED_MAX = 5

export interface RegionChange {
  readonly id: string
  readonly precondition: Precondition | null
}

export interface ChangedRegion {
  readonly region: StoredRegion
  readonly outcome: 'created' | 'updated' | 'unchanged'
}

/**
 * Registers a region or changes its description.
 *
 * Needs no precondition as long as nothing would be overwritten, so a script may repeat its registrations.
 */
export async function putRegion(
  plane: PlaneChange,
  change: RegionChange & { readonly description: string },
): Promise<ChangedRegion> {
  const { id, description } = change
  const { trx } = plane
  const before = await findRegion(trx, id)
  checkPut(change, before)
  if (before?.description === description) return { region: before, outcome: 'unchanged' }
  if (before === null) await refuseTooMany(trx)
  await writeRegion(trx, { id, description, revision: plane.takeRevision() })
  const region = await requireRegion(trx, id)
  const action = before === null ? 'region.create' : 'region.update'
  plane.record({ action, objectKind: 'region', objectId: id, before, after: region })
  return { region, outcome: before === null ? 'created' : 'updated' }
}

function checkPut(
  change: RegionChange & { readonly description: string },
  before: StoredRegion | null,
): void {
  if (change.precondition !== null) {
    checkPrecondition(change.precondition, `region ${change.id}`, before)
  } else if (before !== null && before.description !== change.description) {
    throw preconditionRequired(
      `region ${change.id} exists with another description: send If-Match: "${before.revision}" to replace it`,
    )
  }
}

/**
 * Removes a region that has no part of any limit: one that was drained, or never had one. The splits that name it go
 * on without it. Its incarnation counter stays, should it return.
 */
export async function deleteRegion(
  plane: PlaneChange,
  { id, precondition }: RegionChange,
): Promise<void> {
  const { trx } = plane
  const before = await requireRegion(trx, id)
  if (precondition === null) {
    throw preconditionRequired(`send If-Match: "${before.revision}" to remove region ${id}`)
  }
  checkPrecondition(precondition, `region ${id}`, before)
  const policies = await listPoliciesOf(trx, [id])
  refuseInUse(before, policies)
  const splits = await takeOut(plane, before, policies)
  const gone = { kind: 'region', id, before, after: null }
  plane.record({
    action: 'region.delete',
    objectKind: 'region',
    objectId: id,
    before,
    after: null,
    documents: [gone, ...splits],
  })
  // An epoch that awaited this region alone has nobody left to wait for.
  await closeAdoptedEpochs(plane)
}

export async function requireRegion(db: Db, id: string): Promise<StoredRegion> {
  const region = await findRegion(db, id)
  if (region !== null) return region
  throw new QuotaError('QUOTA_REGION_NOT_FOUND', `there is no region ${id}`)
}

async function refuseTooMany(trx: Trx): Promise<void> {
  const { length } = await listRegions(trx)
  if (length < REGIONS_MAX) return
  throw new QuotaError('QUOTA_IN_USE', `a plane has at most ${REGIONS_MAX} regions`)
}

function refuseInUse({ id, state }: StoredRegion, policies: readonly StoredPolicy[]): void {
  const using = policies.filter(({ limits }) =>
    limits.some(({ base, previousBase }) => id in base || id in (previousBase ?? {})),
  )
  if (using.length === 0) return
  const names = using.slice(0, USERS_NAMED_MAX).map(({ domain, name }) => `${domain}/${name}`)
  const fix =
    state === 'draining'
      ? `it is being drained: wait until GET /v1/regions/${id} says that it is drained`
      : `drain it first (POST /v1/regions/${id}/drain); if it is lost, stop what is left of it and certify that (POST /v1/regions/${id}/remove)`
  throw new QuotaError(
    'QUOTA_IN_USE',
    `region ${id} has a part of limits of ${names.join(', ')}: ${fix}`,
  )
}
