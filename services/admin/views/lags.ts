import { isNewer } from '../../../shared/core/ledger/state.ts'
import type { RegionId } from '../../../shared/core/policy.ts'
import type { LagsReply } from '../../../shared/protocol/reading-replies.ts'
import type { FactsBook } from '../facts-book.ts'
import type { LiveView } from '../live-view.ts'

export interface LagsQuery {
  readonly members: readonly RegionId[]
  readonly live: LiveView
  readonly facts: FactsBook
  readonly nowMs: number
}

type RegionState = LagsReply['regions'][number]
type PairLag = LagsReply['pairs'][number]

/** How each region does, by what was last heard of it. */
export function regionStates(query: LagsQuery): RegionState[] {
  return query.members.map((region) => {
    const { isReporting, ageMs, appliedRevision, isRecovering } = query.live.health(
      region,
      query.nowMs,
    )
    const heard = query.live.heard(region)
    const rows = heard?.record.rows ?? []
    return {
      region,
      isReporting,
      lastHeardAt: isoTime(heard?.heardAtMs ?? null),
      ageMs,
      store: isReporting ? (isRecovering ? 'recovering' : 'up') : 'unknown',
      bus: isReporting ? 'up' : isHeardByOthers(region, query) ? 'not-heard-here' : 'unknown',
      appliedRevision,
      hungryKeys: rows.filter(({ hungry }) => hungry).length,
      audit: auditOf(region, query),
    }
  })
}

/** Of the daemon that leads: a standby hears no records and audits nothing. */
function auditOf(region: RegionId, { facts, nowMs }: LagsQuery): RegionState['audit'] {
  const leading = facts.of(region, nowMs).filter((one) => one.facts.isLeading)
  if (leading.length === 0) return null
  return {
    overAdmitted: Math.max(...leading.map((one) => one.facts.overAdmitted)),
    alarms: Math.max(...leading.map((one) => one.facts.alarms)),
    ageMs: Math.max(0, Math.round(nowMs - Math.max(...leading.map((one) => one.heardAtMs)))),
  }
}

/** For each ordered pair of regions: how old what one has of the other is, by when records came here. */
export function pairLags(query: LagsQuery): PairLag[] {
  return query.members.flatMap((from) =>
    query.members.filter((to) => to !== from).map((to) => pairLag(from, to, query)),
  )
}

function pairLag(from: RegionId, to: RegionId, { live, nowMs }: LagsQuery): PairLag {
  const listener = live.heard(to)
  const ack = listener?.record.acks[from]
  // An acknowledged record that has not come here yet is as new as can be.
  const sentMs = ack === undefined ? null : (live.marks.heardMs(from, ack) ?? nowMs)
  const spokeMs = listener?.heardAtMs ?? null
  const lagMs = sentMs === null || spokeMs === null ? null : Math.max(0, spokeMs - sentMs)
  return {
    from,
    to,
    lagMs: lagMs === null ? null : Math.round(lagMs),
    asOf: isoTime(spokeMs),
    ageMs: spokeMs === null ? null : Math.max(0, Math.round(nowMs - spokeMs)),
  }
}

/** Some region that reports has newer records of this one than came here. */
function isHeardByOthers(region: RegionId, { members, live, nowMs }: LagsQuery): boolean {
  const newest = live.heard(region)?.record.mark
  return members.some((other) => {
    if (other === region || !live.health(other, nowMs).isReporting) return false
    const ack = live.heard(other)?.record.acks[region]
    return ack !== undefined && (newest === undefined || isNewer(ack, newest))
  })
}

function isoTime(ms: number | null): string | null {
  return ms === null ? null : new Date(ms).toISOString()
}
