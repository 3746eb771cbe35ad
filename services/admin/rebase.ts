/** Moves the base of limits whose policies say `rebase: auto` to where the demand of the last hour is. */
import { proposeBase } from '../../shared/core/base-rebase.ts'
import { underEmergency } from '../../shared/core/emergency.ts'
import { holdingOf } from '../../shared/core/enforced.ts'
import type { BaseSplit, RegionId } from '../../shared/core/policy.ts'
import type { ChangeContext } from '../../shared/postgres/audit.ts'
import type { Db } from '../../shared/postgres/plane.ts'
import { changePlane, type PlaneChange } from '../../shared/postgres/plane-change.ts'
import { listRebasedPolicies, touchPolicy } from '../../shared/postgres/policies.ts'
import type { StoredLimit, StoredPolicy } from '../../shared/postgres/policy-rows.ts'
import { listRegions, type StoredRegion } from '../../shared/postgres/regions.ts'
import { weightSteps } from '../../shared/protocol/policy.ts'
import { DemandHour } from './demand-hour.ts'
import type { LiveView } from './live-view.ts'
import { attendanceOf, moveBase } from './region-moves.ts'

/** How often it is looked whether something is to be moved. */
const LOOK_INTERVAL_MS = 60_000

/** Least time between two moves of one limit: an epoch makes edits of its split wait, so it is a rare thing. */
export const REBASE_INTERVAL_MS = 10 * 60_000

export interface RebaseOptions {
  readonly db: Db
  readonly live: LiveView
  readonly monotonicMs: () => number
  readonly wallMs: () => number
}

export class Rebase {
  readonly #options: RebaseOptions
  readonly #demand: DemandHour
  readonly #movedAt = new Map<number, number>()
  #watched: ReadonlySet<number> = new Set()
  #lookedAtMs = Number.NEGATIVE_INFINITY

  constructor(options: RebaseOptions) {
    this.#options = options
    this.#demand = new DemandHour(options.monotonicMs())
  }

  /** True when it moved something. Costs nothing while no policy asks for it. */
  async stepOnce(members: readonly RegionId[]): Promise<boolean> {
    const { db, live, monotonicMs } = this.#options
    const nowMs = monotonicMs()
    const isWatched = (limitId: number): boolean => this.#watched.has(limitId)
    for (const member of members) {
      const heard = live.heard(member)
      if (heard !== null && this.#watched.size > 0)
        this.#demand.note(heard.record, isWatched, nowMs)
    }
    if (nowMs - this.#lookedAtMs < LOOK_INTERVAL_MS) return false
    this.#lookedAtMs = nowMs
    const policies = await listRebasedPolicies(db)
    this.#watched = new Set(policies.flatMap(({ limits }) => limits.map(({ id }) => id)))
    this.#demand.keep(isWatched)
    if (policies.length === 0) return false
    return await changePlane(db, CONTEXT, (plane) => this.#moveAll(plane, nowMs))
  }

  async #moveAll(plane: PlaneChange, nowMs: number): Promise<boolean> {
    const { trx } = plane
    const regions = await listRegions(trx)
    // An epoch waits for every region; one that is not heard would keep it open, and edits waiting.
    if (!regions.every((region) => this.#isWell(region))) return false
    const { present } = attendanceOf(regions)
    let moved = 0
    for (const policy of await listRebasedPolicies(trx)) {
      const due = policy.limits.flatMap((limit) => {
        const base = this.#nextBase(policy, limit, present, nowMs)
        return base === null ? [] : [{ limit, base }]
      })
      if (due.length === 0) continue
      for (const { limit, base } of due) await moveBase(trx, policy, limit, base)
      await touchPolicy(trx, policy.id, plane.takeRevision())
      recordMoves(plane, policy, due)
      for (const { limit } of due) this.#movedAt.set(limit.id, nowMs)
      moved += due.length
    }
    return moved > 0
  }

  #isWell({ id, state }: StoredRegion): boolean {
    const { isReporting, isRecovering } = this.#options.live.health(id, this.#options.wallMs())
    const isStill = state === 'active' || state === 'drained'
    return isStill && isReporting && !isRecovering
  }

  #nextBase(
    policy: StoredPolicy,
    limit: StoredLimit,
    present: readonly RegionId[],
    nowMs: number,
  ): BaseSplit | null {
    const movedAtMs = this.#movedAt.get(limit.id) ?? Number.NEGATIVE_INFINITY
    const isFree = limit.previousBase === null && nowMs - movedAtMs >= REBASE_INTERVAL_MS
    const isLent =
      holdingOf(policy, limit) === 'share' && !isHeldStill(policy, limit, this.#options.wallMs())
    if (!isFree || !isLent) return null
    const demand = this.#demand.demandOf(limit.id, nowMs)
    if (demand === null) return null
    return proposeBase({ ...limit, split: weightSteps(limit.split), demand, present })
  }
}

/** While an operator has frozen its loans or pinned its split. */
function isHeldStill(policy: StoredPolicy, { id }: StoredLimit, atMs: number): boolean {
  const limit = underEmergency(policy, atMs).limits.find((one) => one.id === id)
  return (limit?.lending ?? 'free') !== 'free'
}

const CONTEXT: ChangeContext = {
  actor: 'admin',
  requestId: 'rebase',
  reason: 'the demand of the last hour had another mix than the base',
}

function recordMoves(
  plane: PlaneChange,
  policy: StoredPolicy,
  moves: readonly { readonly limit: StoredLimit; readonly base: BaseSplit }[],
): void {
  const id = `${policy.domain}/${policy.name}`
  const before = { bases: moves.map(({ limit }) => ({ limit: limit.name, base: limit.base })) }
  const after = { bases: moves.map(({ limit, base }) => ({ limit: limit.name, base })) }
  plane.record({
    action: 'policy.rebase',
    objectKind: 'policy',
    objectId: id,
    before,
    after,
    documents: [{ kind: 'base', id, before, after }],
  })
}
