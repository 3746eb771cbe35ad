/**
 * Finds the policy that governs a descriptor, at a cost that depends on the descriptor alone.
 *
 * A domain is a trie whose levels are entries: at each level the branch of an exact value comes before those of
 * wildcards, and they before the branch of the bare key. Each node knows how many entries the policies below it have, so a branch that cannot
 * end at the descriptor's depth is never entered; the rest is backtracking, because an exact branch may turn out
 * to hold no policy for the entries that follow while a bare one does. Only Maps, so no key is special.
 */
import type { Descriptor } from './descriptor.ts'
import type { MatchEntry, RegionPolicy } from './policy.ts'
import type { RegionPolicies } from './ports.ts'
import {
  emptyPatterns,
  isPattern,
  itemsMatching,
  type PatternTable,
  patternItem,
} from './value-patterns.ts'

/** The policies of one version, ready for matching. Built by `buildPolicyIndex`; never changes. */
export interface PolicyIndex {
  readonly incarnation: number
  readonly version: number
  /** Highest revision among the policies; 0 without any. */
  readonly revision: number
  readonly policyCount: number
  readonly domains: ReadonlyMap<string, DomainIndex>
}

export interface DomainIndex {
  readonly policies: readonly RegionPolicy[]
  readonly root: Node
}

/** Most nodes have no branches, and most others one kind; a Map that nobody needs would be most of the cost. */
interface Node {
  /** By key, then by value. */
  exact: Map<string, Map<string, Node>> | null
  /** Values with wildcards by key, in the order of the policies. */
  wildcards: Map<string, PatternTable<Node>> | null
  bare: Map<string, Node> | null
  /** Bit d: some policy at or below this node has d entries in all. */
  depths: number
  policy: RegionPolicy | null
}

/**
 * Builds the index of `policies`.
 *
 * What did not change since `previous` is taken from it: a policy keeps its object and a domain its trie, so that
 * what callers keep by policy object stays valid and an edit costs one domain. Of two policies with the same
 * match the one with the lower id governs, whatever the order they come in.
 */
export function buildPolicyIndex(
  policies: RegionPolicies,
  previous: PolicyIndex | null,
): PolicyIndex {
  const kept = previous?.incarnation === policies.incarnation ? previous : null
  const byDomain = new Map<string, RegionPolicy[]>()
  for (const policy of policies.policies) {
    const group = byDomain.get(policy.domain)
    if (group === undefined) byDomain.set(policy.domain, [policy])
    else group.push(policy)
  }
  const domains = new Map<string, DomainIndex>()
  for (const [domain, group] of byDomain) {
    domains.set(domain, buildDomain(group, kept?.domains.get(domain)))
  }
  return {
    incarnation: policies.incarnation,
    version: policies.version,
    revision: policies.policies.reduce((highest, policy) => Math.max(highest, policy.revision), 0),
    policyCount: policies.policies.length,
    domains,
  }
}

/**
 * The policy that governs `descriptor` in `domain`, or null.
 *
 * A policy matches only descriptors with as many entries as it has itself. Entries are compared in order. An exact
 * value beats a wildcard, and that a bare key, the first entry counting most; of wildcards the older policy's wins.
 */
export function matchPolicy(
  index: PolicyIndex,
  domain: string,
  descriptor: Descriptor,
): RegionPolicy | null {
  const found = index.domains.get(domain)
  return found === undefined ? null : matchBelow(found.root, descriptor, 0)
}

function matchBelow(node: Node, descriptor: Descriptor, depth: number): RegionPolicy | null {
  if ((node.depths & (1 << descriptor.entries.length)) === 0) return null
  const entry = descriptor.entries[depth]
  if (entry === undefined) return node.policy
  const exact = node.exact?.get(entry.key)?.get(entry.value)
  const found = exact === undefined ? null : matchBelow(exact, descriptor, depth + 1)
  if (found !== null) return found
  const wildcards = node.wildcards?.get(entry.key)
  if (wildcards !== undefined) {
    for (const wildcard of itemsMatching(wildcards, entry.value)) {
      const below = matchBelow(wildcard, descriptor, depth + 1)
      if (below !== null) return below
    }
  }
  const bare = node.bare?.get(entry.key)
  return bare === undefined ? null : matchBelow(bare, descriptor, depth + 1)
}

function buildDomain(
  group: readonly RegionPolicy[],
  previous: DomainIndex | undefined,
): DomainIndex {
  const before = new Map(previous?.policies.map((policy) => [policy.id, policy]))
  const policies = group
    .map((policy) => keepUnchanged(policy, before.get(policy.id)))
    .sort((a, b) => a.id - b.id)
  const isSame =
    policies.length === previous?.policies.length &&
    policies.every((policy, position) => policy === previous.policies[position])
  if (previous !== undefined && isSame) return previous
  const root = emptyNode()
  for (const policy of policies) insert(root, policy)
  return { policies, root }
}

/**
 * A change of the plane's policy raises its revision, one of the region's own numbers the limit's version, and an
 * override that expires the overrides' version.
 */
function keepUnchanged(policy: RegionPolicy, before: RegionPolicy | undefined): RegionPolicy {
  const isSame =
    before?.revision === policy.revision &&
    before.overridesVersion === policy.overridesVersion &&
    before.limits.length === policy.limits.length &&
    policy.limits.every((limit, position) => {
      const old = before.limits[position]
      return old?.id === limit.id && old.version === limit.version
    })
  return before !== undefined && isSame ? before : policy
}

function insert(root: Node, policy: RegionPolicy): void {
  const depth = 1 << policy.match.length
  let node = root
  node.depths |= depth
  for (const entry of policy.match) {
    node = childFor(node, entry)
    node.depths |= depth
  }
  node.policy ??= policy
}

function childFor(node: Node, entry: MatchEntry): Node {
  if (entry.value === undefined) {
    node.bare ??= new Map()
    return getOrCreate(node.bare, entry.key, emptyNode)
  }
  if (isPattern(entry.value)) {
    node.wildcards ??= new Map()
    const table = getOrCreate(node.wildcards, entry.key, emptyPatterns<Node>)
    return patternItem(table, entry.value, emptyNode)
  }
  node.exact ??= new Map()
  const values = getOrCreate(node.exact, entry.key, () => new Map<string, Node>())
  return getOrCreate(values, entry.value, emptyNode)
}

function getOrCreate<T>(map: Map<string, T>, key: string, create: () => T): T {
  const found = map.get(key)
  if (found !== undefined) return found
  const created = create()
  map.set(key, created)
  return created
}

function emptyNode(): Node {
  return { exact: null, wildcards: null, bare: null, depths: 0, policy: null }
}
