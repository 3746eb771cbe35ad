import type { RegionId } from '../../../shared/core/policy.ts'
import { shareTokens } from '../../../shared/core/units.ts'
import type { InputProblem } from '../../../shared/errors.ts'
import { nameOf } from '../../../shared/postgres/policy-batch.ts'
import type { StoredLimit, StoredPolicy } from '../../../shared/postgres/policy-rows.ts'
import type { DocumentStates } from '../../../shared/postgres/revisions.ts'
import type { Plan } from '../../../shared/protocol/plan.ts'
import { reviewPolicy } from '../../../shared/protocol/policy-warnings.ts'
import { MINUTE_MS, MINUTES_KEPT, SECOND_MS } from '../history/series-book.ts'
import type { LiveView } from '../live-view.ts'
import { documentDiffOf, shortDiffOf } from './document-diff.ts'
import { documentOf } from './policy.ts'
import { sharesOf } from './shares.ts'
import { usageTopOf } from './usage-top.ts'

/** A plan is read by a person before it is carried out; what is left out is counted. */
const CHANGES_MAX = 1_000

/** Changes that are told as whole documents with what differs in them; of more, nobody reads what is around it. */
const WHOLE_DIFFS_MAX = 100

const LIMITS_MAX = 200
const KEYS_MAX = 100
const WARNINGS_MAX = 200

/** Hot keys of a limit that are asked whether a split would starve them. */
const KEYS_ASKED_MAX = 100

export interface PlannedChange {
  readonly changes: readonly DocumentStates[]
  /** The policies that it touches, by name, as they are and as they would be. */
  readonly before: ReadonlyMap<string, StoredPolicy>
  readonly after: ReadonlyMap<string, StoredPolicy>
  readonly members: readonly RegionId[]
  readonly live: LiveView
  readonly nowMs: number
}

/** A limit as it is and as it would be. */
interface LimitPair {
  readonly policy: StoredPolicy
  readonly before: StoredLimit | null
  readonly after: StoredLimit | null
}

export function planOf(planned: PlannedChange): Plan {
  const { changes, after } = planned
  const pairs = pairsOf(planned).filter(isOther)
  const warnings = [
    ...firstReviews(after.values(), planned.members),
    ...pairs.flatMap(restartWarnings),
    ...pairs.slice(0, LIMITS_MAX).flatMap((pair) => starvedWarnings(pair, planned)),
  ]
  return {
    dryRun: true,
    changes: changes
      .slice(0, CHANGES_MAX)
      .map((change, index) =>
        index < WHOLE_DIFFS_MAX ? documentDiffOf(change) : shortDiffOf(change),
      ),
    changesLeftOut: Math.max(0, changes.length - CHANGES_MAX),
    limits: pairs.slice(0, LIMITS_MAX).map(shownPair),
    limitsLeftOut: Math.max(0, pairs.length - LIMITS_MAX),
    keysOver: keysOver(pairs, planned),
    warnings: warnings.slice(0, WARNINGS_MAX),
  }
}

function pairsOf({ before, after }: PlannedChange): readonly LimitPair[] {
  return [...new Set([...before.keys(), ...after.keys()])].flatMap((name) => {
    const [old, now] = [before.get(name), after.get(name)]
    const policy = now ?? old
    if (policy === undefined) return []
    const [olds, nows] = [enforced(old), enforced(now)]
    return [...new Set([...olds.keys(), ...nows.keys()])].map((limit) => ({
      policy,
      before: olds.get(limit) ?? null,
      after: nows.get(limit) ?? null,
    }))
  })
}

function enforced(policy: StoredPolicy | undefined): ReadonlyMap<string, StoredLimit> {
  const limits = policy?.limits.filter(({ candidateOf }) => candidateOf === null) ?? []
  return new Map(limits.map((limit) => [limit.name, limit]))
}

function isOther({ before, after }: LimitPair): boolean {
  const what = (limit: StoredLimit | null) =>
    limit && [limit.id, limit.capacity, limit.windowMs, limit.burst, limit.base, limit.usageEpoch]
  return JSON.stringify(what(before)) !== JSON.stringify(what(after))
}

function isRestarted({ before, after }: LimitPair): boolean {
  if (before === null || after === null) return false
  return before.id !== after.id || before.usageEpoch !== after.usageEpoch
}

function shownPair(pair: LimitPair): Plan['limits'][number] {
  const { policy, before, after } = pair
  const regions = new Set([...Object.keys(before?.base ?? {}), ...Object.keys(after?.base ?? {})])
  const changed = isRestarted(pair) ? 'restarted' : 'changed'
  return {
    ...headOf(pair),
    domain: policy.domain,
    change: before === null ? 'added' : after === null ? 'removed' : changed,
    capacity: { before: before?.capacity ?? null, after: after?.capacity ?? null },
    regions: [...regions]
      .sort()
      .map((region) => ({ region, before: partOf(before, region), after: partOf(after, region) })),
  }
}

function headOf({ policy, before, after }: LimitPair) {
  return { domain: policy.domain, policy: policy.name, limit: (after ?? before)?.name ?? '' }
}

function partOf(limit: StoredLimit | null, region: RegionId) {
  if (limit === null) return null
  const units = limit.base[region] ?? 0
  return { units, tokens: shareTokens(limit.capacity, units) }
}

/** One reading for each length of window, since each reading goes through all hot keys. */
function keysOver(pairs: readonly LimitPair[], planned: PlannedChange): Plan['keysOver'] {
  const kept = new Map(
    pairs.flatMap((pair) =>
      pair.after === null || isRestarted(pair) ? [] : [[pair.after.id, pair.after] as const],
    ),
  )
  const policies = [...new Set(pairs.map(({ policy }) => policy))]
  const windows = new Set([...kept.values()].map(({ windowMs }) => windowMs))
  return [...windows]
    .flatMap((windowMs) => {
      const { members, live, nowMs } = planned
      const spanMs = Math.min(Math.max(windowMs, SECOND_MS), MINUTES_KEPT * MINUTE_MS)
      // With the running second, in which the newest records were counted.
      const toMs = (Math.floor(nowMs / SECOND_MS) + 1) * SECOND_MS
      const query = { policies, members, live, by: 'use', region: undefined } as const
      const refills = Math.max(1, spanMs / windowMs)
      return usageTopOf({ ...query, fromMs: toMs - spanMs, toMs }).filter(({ limitId, value }) => {
        const limit = kept.get(limitId)
        return limit?.windowMs === windowMs && value > limit.capacity * refills
      })
    })
    .sort((one, other) => other.value - one.value)
    .slice(0, KEYS_MAX)
    .map(({ domain, policy, limit, limitId, key, value: used }) => {
      const capacity = kept.get(limitId)?.capacity ?? 0
      return { domain, policy, limit, key, used, capacity }
    })
}

/** As many as are shown: a change of thousands of policies is not reviewed to the end for those that are left out. */
function firstReviews(
  policies: Iterable<StoredPolicy>,
  members: readonly RegionId[],
): readonly InputProblem[] {
  const warnings: InputProblem[] = []
  for (const policy of policies) {
    if (warnings.length >= WARNINGS_MAX) break
    warnings.push(...reviewWarnings(policy, members))
  }
  return warnings
}

function reviewWarnings(
  policy: StoredPolicy,
  members: readonly RegionId[],
): readonly InputProblem[] {
  return reviewPolicy(documentOf(policy), members).warnings.map((warning) => ({
    ...warning,
    field: `${nameOf(policy)}.${warning.field}`,
  }))
}

function fieldOf({ policy, before, after }: LimitPair): string {
  return `${nameOf(policy)}.limits[${(after ?? before)?.name}]`
}

function restartWarnings(pair: LimitPair): readonly InputProblem[] {
  if (!isRestarted(pair)) return []
  const message = 'would start with nothing spent: every key could spend its limit again'
  return [{ field: fieldOf(pair), message }]
}

/** Regions of which the part would shrink below what one of their hot keys asks for at present. */
function starvedWarnings(pair: LimitPair, planned: PlannedChange): readonly InputProblem[] {
  const { policy, before, after } = pair
  if (before === null || after === null || isRestarted(pair)) return []
  const old = { ...policy, limits: [before] }
  const [shares] = sharesOf({ ...planned, policies: [old], keysMax: KEYS_ASKED_MAX })
  const asking = (shares?.keys ?? []).flatMap(({ key, regions }) =>
    regions.map(({ region, demandPerSecond }) => ({ key, region, demandPerSecond })),
  )
  return planned.members.flatMap((region) => {
    const part = ratePerSecond(after, region)
    if (part >= ratePerSecond(before, region)) return []
    const starved = asking
      .filter((one) => one.region === region && one.demandPerSecond > part)
      .sort((one, other) => other.demandPerSecond - one.demandPerSecond)
    const [worst] = starved
    if (worst === undefined) return []
    const who = starved.length === 1 ? 'a hot key asks' : `${starved.length} hot keys ask`
    return [
      {
        field: `${fieldOf(pair)}.split.${region}`,
        message: `would leave ${region} ${shown(part)} tokens a second, and ${who} for more there: ${worst.key} for ${shown(worst.demandPerSecond)}`,
        fix: 'give the region a larger part, or expect it to live on what others lend',
      },
    ]
  })
}

function ratePerSecond({ capacity, windowMs, base }: StoredLimit, region: RegionId): number {
  return (shareTokens(capacity, base[region] ?? 0) * 1_000) / windowMs
}

function shown(rate: number): string {
  return String(Math.round(rate * 10) / 10)
}
