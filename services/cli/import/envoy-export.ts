/** Writes policies as the YAML of Envoy's rate limit service, as far as that can say them. */
import { stringify } from 'yaml'
import type { LimitDocument, PolicyDocument } from '../../../shared/protocol/policy.ts'
import { ENVOY_UNITS, parseEnvoyConfig } from './envoy-config.ts'
import { envoyPolicies, GIVEN_UP } from './envoy-policies.ts'

export interface EnvoyExport {
  /** One file's text for each domain. */
  readonly files: readonly { readonly domain: string; readonly text: string }[]
  readonly leftOut: readonly { readonly policy: string; readonly reason: string }[]
}

interface Node {
  key: string
  value?: string
  rate_limit?: object
  shadow_mode?: true
  share_threshold?: true
  descriptors?: Node[]
}

export function exportEnvoy(policies: readonly PolicyDocument[]): EnvoyExport {
  const leftOut: { policy: string; reason: string }[] = []
  const domains = new Map<string, PolicyDocument[]>()
  for (const policy of policies) {
    const reason = reasonAgainst(policy)
    if (reason === null) {
      domains.set(policy.domain, [...(domains.get(policy.domain) ?? []), policy])
    } else leftOut.push({ policy: `${policy.domain}/${policy.name}`, reason })
  }
  const files = [...domains].map(([domain, own]) => {
    const named = new Set(own.flatMap(({ replaces = [] }) => replaces))
    const descriptors: Node[] = []
    for (const policy of own) insert(descriptors, policy, named.has(policy.name))
    const text = stringify({ domain, descriptors }, { lineWidth: 0, version: '1.1' })
    for (const match of givenUp(domain, text)) {
      const reason = `${match} meets no limit there: the service gives up where its best branch ends, and here the next best policy governs`
      leftOut.push({ policy: `${domain}:`, reason })
    }
    return { domain, text }
  })
  return { files, leftOut }
}

/** Descriptors that the service leaves without a limit and that have one here; what an import would have to add says. */
function givenUp(domain: string, text: string): readonly string[] {
  const parsed = parseEnvoyConfig(text).domain
  if (parsed === null) return []
  const options = { split: { any: 100 }, domains: new Map([[domain, domain]]) }
  const { policies } = envoyPolicies([{ file: domain, domain: parsed }], options)
  return policies
    .filter(({ description = '' }) => description.startsWith(GIVEN_UP))
    .map(({ match }) =>
      match.map(({ key, value }) => (value === undefined ? key : `${key}=${value}`)).join(', '),
    )
}

/** Why a policy cannot be said there; null when it can. */
function reasonAgainst({ limits, unlimited, match, tiers, mode }: PolicyDocument): string | null {
  const bareShared = match.find(({ value, shared }) => shared === true && value === undefined)
  if (bareShared !== undefined) return `counts all values of ${bareShared.key} together`
  if (tiers !== undefined) return 'has tiers'
  if (mode === 'relaxed') return 'is relaxed'
  if (unlimited) return null
  const [limit, ...more] = limits
  if (limit === undefined || more.length > 0)
    return `has ${limits.length} limits, and a descriptor has one`
  if (limit.algorithm !== 'fixed_window') return `counts by ${limit.algorithm}`
  if (limit.candidate !== undefined) return 'has a candidate'
  if (limit.calendar !== undefined) return 'follows a calendar'
  if (limit.capacity > 0xff_ff_ff_ff) return 'has a capacity that is too large there'
  return unitOf(limit) === null
    ? `has a window of ${limit.windowMs} ms, which is no unit there`
    : null
}

function insert(
  roots: Node[],
  { match, limits, unlimited, shadow, name, replaces }: PolicyDocument,
  isReplaced: boolean,
): void {
  let level = roots
  let node: Node | undefined
  for (const { key, value, shared } of match) {
    node = level.find((one) => one.key === key && one.value === value)
    if (node === undefined) {
      node = { key, ...(value !== undefined && { value }) }
      level.push(node)
    }
    if (shared === true) node.share_threshold = true
    node.descriptors ??= []
    level = node.descriptors
  }
  if (node === undefined) return
  const [limit] = limits
  node.rate_limit = {
    ...(isReplaced && { name }),
    ...(unlimited || limit === undefined
      ? { unlimited: true }
      : { unit: unitOf(limit), requests_per_unit: limit.capacity }),
    ...(replaces !== undefined && { replaces: replaces.map((other) => ({ name: other })) }),
  }
  if (shadow) node.shadow_mode = true
}

function unitOf({ windowMs }: LimitDocument): string | null {
  return Object.entries(ENVOY_UNITS).find(([, ms]) => ms === windowMs)?.[0] ?? null
}
