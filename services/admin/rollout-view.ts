import type { RegionId } from '../../shared/core/policy.ts'
import type { EnforcerStatus, RegionReport } from '../../shared/core/rollout.ts'
import type {
  RegionRollout,
  RolloutReply,
  RolloutState,
} from '../../shared/protocol/rollout-reply.ts'
import { SILENT_AFTER_MS } from './live-view.ts'

/** Changes of revision that are remembered of a region and of each enforcer, for when an older one came into force. */
const STEPS_MAX = 256

interface Step {
  readonly revision: number
  readonly sinceMs: number
}

interface HeardRegion {
  readonly report: RegionReport
  readonly heardAtMs: number
  readonly steps: readonly Step[]
  readonly enforcers: ReadonlyMap<string, readonly Step[]>
}

export interface RolloutQuery {
  readonly revision: number
  readonly members: readonly RegionId[]
  readonly nowMs: number
}

/**
 * What the regions said last of the revisions that they and their enforcers apply, in memory.
 *
 * Says no more than was heard: a region that is cut off keeps what it had said to apply, since revisions only grow,
 * and everything else about it is unknown since its last word.
 */
export class RolloutView {
  readonly #heard = new Map<RegionId, HeardRegion>()

  /** Takes in a report; those of regions that are not `members` are ignored, and what is kept of such is forgotten. */
  hear(report: RegionReport, members: readonly RegionId[], nowMs: number): void {
    for (const region of this.#heard.keys()) {
      if (!members.includes(region)) this.#heard.delete(region)
    }
    if (!members.includes(report.from)) return
    const last = this.#heard.get(report.from)
    const enforcers = report.enforcers.map(
      (status) => [status.id, nextSteps(last?.enforcers.get(status.id), status)] as const,
    )
    this.#heard.set(report.from, {
      report,
      heardAtMs: nowMs,
      steps: nextSteps(last?.steps, report),
      enforcers: new Map(enforcers),
    })
  }

  rolloutOf({ revision, members, nowMs }: RolloutQuery): RolloutReply {
    const regions = members.map((region) => this.regionOf(region, revision, nowMs))
    const inReach = regions.filter(({ heardAgeMs }) => !isSilent(heardAgeMs))
    return {
      revision,
      at: isoTime(nowMs),
      isComplete: regions.every(isApplied),
      isCompleteInReach: inReach.every(isApplied),
      regions,
    }
  }

  /** What a region said last, where it is heard at present. */
  reportOf(region: RegionId, nowMs: number): RegionReport | null {
    const heard = this.#heard.get(region)
    return heard === undefined || isSilent(nowMs - heard.heardAtMs) ? null : heard.report
  }

  regionOf(region: RegionId, revision: number, nowMs: number): RegionRollout {
    const heard = this.#heard.get(region)
    if (heard === undefined) return unheard(region)
    const { report, heardAtMs, steps } = heard
    const heardAgeMs = Math.max(0, Math.round(nowMs - heardAtMs))
    const silent = isSilent(heardAgeMs)
    const enforcers = report.enforcers.map((status) => ({
      id: status.id,
      name: status.name,
      ...partOf(status, heard.enforcers.get(status.id) ?? [], revision, silent),
    }))
    const own = partOf(report, steps, revision, silent)
    const state = worst([own.state, ...enforcers.map((enforcer) => enforcer.state)])
    const unknownSince = silent ? isoTime(heardAtMs) : null
    const waits =
      unknownSince === null ? reasonOf(report, own.state, revision) : silence(unknownSince)
    return {
      region,
      ...own,
      state,
      reason: state === 'applied' ? null : (own.reason ?? waits),
      heardAgeMs,
      unknownSince,
      enforcers,
      unlistedEnforcers: report.unlisted,
    }
  }
}

/** The worse, the further to the right. */
const BY_SEVERITY: readonly RolloutState[] = ['applied', 'pending', 'unknown', 'refused']

function worst(states: readonly RolloutState[]): RolloutState {
  const severity = Math.max(...states.map((state) => BY_SEVERITY.indexOf(state)))
  return BY_SEVERITY[severity] ?? 'unknown'
}

function isApplied({ state }: { readonly state: RolloutState }): boolean {
  return state === 'applied'
}

function isSilent(ageMs: number | null): boolean {
  return ageMs === null || ageMs > SILENT_AFTER_MS
}

function unheard(region: RegionId): RegionRollout {
  return {
    region,
    state: 'unknown',
    appliedRevision: null,
    since: null,
    reason: 'nothing was heard of it since admin started',
    heardAgeMs: null,
    unknownSince: null,
    enforcers: [],
    unlistedEnforcers: 0,
  }
}

function partOf(
  status: Pick<EnforcerStatus, 'revision' | 'refused'>,
  steps: readonly Step[],
  revision: number,
  silent: boolean,
): Pick<RegionRollout, 'state' | 'appliedRevision' | 'since' | 'reason'> {
  const appliedRevision = status.revision === 0 ? null : status.revision
  if (status.revision >= revision && appliedRevision !== null) {
    return { state: 'applied', appliedRevision, since: sinceOf(steps, revision), reason: null }
  }
  const state = status.refused !== null ? 'refused' : silent ? 'unknown' : 'pending'
  return { state, appliedRevision, since: null, reason: status.refused?.reason ?? null }
}

function silence(sinceWhen: string): string {
  return `nothing was heard of it since ${sinceWhen}`
}

function reasonOf(report: RegionReport, own: RolloutState, revision: number): string | null {
  if (own === 'applied') return 'not every enforcer of the region applies it'
  if (report.waitsFor !== null || report.heard >= revision) return report.waitsFor
  return `it has heard of revision ${report.heard} and no later one`
}

/** Null where it came into force before the first change that is remembered. */
function sinceOf(steps: readonly Step[], revision: number): string | null {
  const at = steps.findIndex((step) => step.revision >= revision)
  const step = steps[at]
  if (step === undefined || (at === 0 && step.revision > revision)) return null
  return isoTime(step.sinceMs)
}

function nextSteps(
  steps: readonly Step[] = [],
  { revision, sinceMs }: Pick<EnforcerStatus, 'revision' | 'sinceMs'>,
): readonly Step[] {
  const last = steps.at(-1)
  if (last?.revision === revision || sinceMs === null) return steps
  // A lower one: the region lost what it had, and what came before says nothing of now.
  const kept = last !== undefined && last.revision > revision ? [] : steps
  return [...kept, { revision, sinceMs }].slice(-STEPS_MAX)
}

function isoTime(ms: number): string {
  return new Date(ms).toISOString()
}
