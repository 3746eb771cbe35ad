/** What a caller that is limited to domains is shown of what regions say of all domains together. */
import { parseCounterId } from '../../../shared/core/counter-id.ts'
import type { Policy } from '../../../shared/core/policy.ts'
import type { LagsReply } from '../../../shared/protocol/reading-replies.ts'
import type { RegionRollout, RolloutReply } from '../../../shared/protocol/rollout-reply.ts'
import type { LiveView } from '../live-view.ts'

/** A refusal speaks of the policy that it is about, whosever that is. */
const REASON_NOT_SHOWN =
  'what is refused may be of other domains: a token that is not limited to domains is told the reason'

export interface Limits {
  /** Null: the caller may see every domain. */
  readonly domains: readonly string[] | null
  readonly policies: Iterable<Policy>
  readonly live: LiveView
}

/** Where a revision is applied concerns every domain; why a region or an enforcer refuses it may name a policy. */
export function rolloutFor(caller: Pick<Limits, 'domains'>, rollout: RolloutReply): RolloutReply {
  return { ...rollout, regions: rollout.regions.map((region) => regionRolloutFor(caller, region)) }
}

/** As `rolloutFor`, of one region. */
export function regionRolloutFor(
  { domains }: Pick<Limits, 'domains'>,
  region: RegionRollout,
): RegionRollout {
  if (domains === null) return region
  return { ...withoutReason(region), enforcers: region.enforcers.map(withoutReason) }
}

function withoutReason<Part extends { readonly state: string; readonly reason: string | null }>(
  part: Part,
): Part {
  return part.state === 'refused' ? { ...part, reason: REASON_NOT_SHOWN } : part
}

/** Counts the hungry keys of the caller's domains alone; what an audit of all limits found is not shown. */
export function regionsFor(
  { domains, policies, live }: Limits,
  regions: LagsReply['regions'],
): LagsReply['regions'] {
  if (domains === null) return regions
  const isAnyHungry = regions.some(({ hungryKeys }) => hungryKeys > 0)
  const own = isAnyHungry ? limitsOf(policies, domains) : new Set<number>()
  return regions.map((state) => {
    const hungry = (live.heard(state.region)?.record.rows ?? []).filter((row) => row.hungry)
    const hungryKeys = hungry.filter(({ id }) => own.has(parseCounterId(id)?.limitId ?? 0)).length
    return { ...state, hungryKeys, audit: null }
  })
}

function limitsOf(policies: Iterable<Policy>, domains: readonly string[]): ReadonlySet<number> {
  const own = [...policies].filter(({ domain }) => domains.includes(domain))
  return new Set(own.flatMap(({ limits }) => limits.map(({ id }) => id)))
}
