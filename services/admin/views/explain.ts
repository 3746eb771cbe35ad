import { createHash } from 'node:crypto'
import { countedEntries } from '../../../shared/core/counted-entries.ts'
import { counterName, parseCounterId } from '../../../shared/core/counter-id.ts'
import type { DescriptorEntry } from '../../../shared/core/descriptor.ts'
import {
  type EntryMatch,
  type ExplainedMatch,
  explainMatch,
} from '../../../shared/core/explain-match.ts'
import { numbersOf, type Override, overrideEntry } from '../../../shared/core/overrides.ts'
import type { Limit, MatchEntry, Policy, RegionId } from '../../../shared/core/policy.ts'
import { shareTokens } from '../../../shared/core/units.ts'
import type { ExplainReply } from '../../../shared/protocol/explain.ts'
import type { LiveView } from '../live-view.ts'

/** Policies that are explained; a domain may have ten thousand, and those that match are few. */
const POLICIES_MAX = 20

export interface ExplainQuery {
  readonly domain: string
  readonly entries: readonly DescriptorEntry[]
  /** One to explain whether it is near or not. */
  readonly policy: string | null
  readonly policies: Iterable<Policy>
  readonly revision: number
  readonly members: readonly RegionId[]
  readonly live: LiveView
  readonly nowMs: number
}

/** Which policy governs a descriptor, why, and what it may still have in each region. */
export function explain(query: ExplainQuery): ExplainReply {
  const { domain, entries, nowMs } = query
  const own = [...query.policies].filter((policy) => policy.domain === domain)
  const explained = explainMatch(own, { entries })
  const [first] = explained
  const governing = first?.verdict.kind === 'governs' ? first.policy : null
  const shown = explained.filter(
    ({ policy }, place) => place < POLICIES_MAX || policy.name === query.policy,
  )
  const override = governing === null ? null : overrideOf(governing, entries, nowMs)
  return {
    at: new Date(nowMs).toISOString(),
    domain,
    entries: entries.map((entry) => ({ ...entry })),
    revision: query.revision,
    outcome: outcomeOf(governing, override),
    policies: shown.map((one) => policyLine(one, governing, entries)),
    policiesLeftOut: explained.length - shown.length,
    override: override === null ? null : overrideReply(override),
    replaces: [...(governing?.replaces ?? [])],
    limits:
      governing === null
        ? []
        : governing.limits.map((limit) =>
            limitReply({ ...query, policy: governing, limit, override }),
          ),
  }
}

function overrideOf(
  policy: Policy,
  entries: readonly DescriptorEntry[],
  nowMs: number,
): Override | null {
  const { match, overridesBy = null, overrides = [] } = policy
  const value = entries[overrideEntry(match, overridesBy)]?.value
  const found = overrides.find((override) => override.value === value)
  const isInForce = (found?.expiresAtMs ?? Number.POSITIVE_INFINITY) > nowMs
  return found !== undefined && isInForce ? found : null
}

function outcomeOf(policy: Policy | null, override: Override | null): ExplainReply['outcome'] {
  if (policy === null) return 'unmatched'
  if (policy.unlimited || override?.rule.kind === 'unlimited') return 'unlimited'
  if (policy.shadow) return 'watched'
  const live = policy.limits.filter(({ candidateOf }) => candidateOf === null)
  const isDenied = live.some((limit) => variantOf(policy, limit, override).capacity === 0)
  return override?.rule.kind === 'deny' || isDenied ? 'denied' : 'limited'
}

function overrideReply({ value, rule, expiresAtMs }: Override): ExplainReply['override'] {
  return {
    value,
    kind: rule.kind,
    ...(rule.kind === 'tier' && { tier: rule.tier }),
    ...(expiresAtMs !== undefined && { expiresAt: new Date(expiresAtMs).toISOString() }),
  }
}

function policyLine(
  { policy, verdict }: ExplainedMatch<Policy>,
  governing: Policy | null,
  entries: readonly DescriptorEntry[],
): ExplainReply['policies'][number] {
  const { name, revision, match } = policy
  const head = { policy: name, revision, match: match.map((entry) => ({ ...entry })) }
  const at = (place: number): MatchEntry => match[place] ?? { key: '?' }
  switch (verdict.kind) {
    case 'governs':
      return { ...head, verdict: 'governs', because: matched(verdict.how, match) }
    case 'lost': {
      const better = governing?.match[verdict.entry]
      const because =
        better === undefined
          ? `has the match of ${governing?.name}, which is older`
          : `${shownEntry(better)} of ${governing?.name} beats ${shownEntry(at(verdict.entry))}${isSameKind(better, at(verdict.entry)) ? ', since it is older' : ''}`
      return { ...head, verdict: 'lost', because }
    }
    case 'length': {
      const because = `has ${counted(match.length)}, and the descriptor has ${entries.length}`
      return { ...head, verdict: 'no-match', because }
    }
    default: {
      const asked = entries[verdict.entry]
      const wanted = at(verdict.entry)
      const because =
        asked?.key === wanted.key
          ? `${asked?.key}=${asked?.value} is not ${shownEntry(wanted)}`
          : `entry ${verdict.entry + 1} is ${asked?.key}, and it wants ${wanted.key}`
      return { ...head, verdict: 'no-match', because }
    }
  }
}

function matched(how: readonly EntryMatch[], match: readonly MatchEntry[]): string {
  const words = { exact: 'this value', wildcard: 'its pattern', any: 'any value' }
  return match.map(({ key }, place) => `${key}: ${words[how[place] ?? 'any']}`).join(', ')
}

function isSameKind(one: MatchEntry, other: MatchEntry): boolean {
  return one.value !== undefined && other.value !== undefined && one.value.includes('*')
    ? other.value.includes('*')
    : false
}

function shownEntry({ key, value }: MatchEntry): string {
  return value === undefined ? `${key} with any value` : `${key}=${value}`
}

function counted(entries: number): string {
  return entries === 1 ? '1 entry' : `${entries} entries`
}

/** Numbers in force for the tenant, and where they are from. */
function variantOf(policy: Policy, limit: Limit, override: Override | null) {
  const { capacity, burst, name, candidateOf } = limit
  const numbers =
    override === null || candidateOf !== null
      ? null
      : numbersOf(override.rule, policy.tiers ?? {}, name)
  if (numbers === null || override === null) return { capacity, burst, from: 'policy' }
  const from = override.rule.kind === 'tier' ? `tier ${override.rule.tier}` : 'override'
  return { capacity: numbers.capacity, burst: numbers.burst ?? numbers.capacity, from }
}

/** Emergency actions by which the numbers are other than what the policy or the tenant's override says. */
function actionsOn({ policy, limit, nowMs }: LimitQuery): readonly string[] {
  if (limit.candidateOf !== null) return []
  return (policy.emergency ?? []).flatMap(({ id, effect, expiresAtMs }) => {
    const isOfNumbers = effect.kind === 'fix' || effect.kind === 'multiply'
    const isInForce = isOfNumbers && effect.limit === limit.name && nowMs < expiresAtMs
    return isInForce ? [`emergency action ${id}`] : []
  })
}

type LimitQuery = Omit<ExplainQuery, 'policy'> & {
  readonly policy: Policy
  readonly limit: Limit
  readonly override: Override | null
}

function limitReply(query: LimitQuery): ExplainReply['limits'][number] {
  const { policy, limit, override, entries } = query
  const numbers = variantOf(policy, limit, override)
  const counter = counterName(countedEntries(policy.match, entries), (text) =>
    createHash('sha256').update(text).digest('base64url'),
  )
  return {
    limit: limit.name,
    algorithm: limit.algorithm,
    ...numbers,
    from: [numbers.from, ...actionsOn(query)].join(', '),
    windowMs: limit.windowMs,
    isCandidate: limit.candidateOf !== null,
    counter,
    regions: query.members.map((region) => regionReply(query, region, counter, numbers.capacity)),
  }
}

function regionReply(
  { live, limit, nowMs }: LimitQuery,
  region: RegionId,
  counter: string,
  capacity: number,
): ExplainReply['limits'][number]['regions'][number] {
  const row = live.heard(region)?.record.rows.find(({ id }) => {
    const parts = parseCounterId(id)
    const isLimit = parts?.limitId === limit.id && parts.usageEpoch === limit.usageEpoch
    return isLimit && parts.name === counter
  })
  const units = row?.share ?? limit.base[region] ?? 0
  const { appliedRevision, ageMs } = live.health(region, nowMs)
  return {
    region,
    share: { units, tokens: shareTokens(capacity, units) },
    isHot: row !== undefined,
    isHungry: row?.hungry ?? false,
    demandPerSecond: (row?.demand ?? 0) / 1_000,
    admitted: row?.admitted ?? 0,
    denied: row?.denied ?? 0,
    appliedRevision,
    ageMs,
  }
}
