/**
 * Makes policies of the descriptor trees of Envoy's rate limit service.
 *
 * One for each node with a limit, its match the path from the root. The service follows one branch, the one that fits
 * best, and gives up where that ends; here the next best is tried. So for each branch that ends where a lesser one
 * beside it goes on, an unlimited policy of bare keys stands for the giving up. A node with neither limit nor
 * children is unlimited as well.
 */
import {
  ENTRIES_MAX,
  ENTRY_KEY_BYTES_MAX,
  ENTRY_VALUE_BYTES_MAX,
} from '../../../shared/core/descriptor.ts'
import type { MatchEntry } from '../../../shared/core/policy.ts'
import {
  emptyPatterns,
  isPattern,
  itemsMatching,
  patternItem,
} from '../../../shared/core/value-patterns.ts'
import type { PolicyInput } from '../../../shared/protocol/policy.ts'
import {
  compositeOf,
  ENVOY_UNITS,
  type EnvoyDescriptor,
  type EnvoyDomain,
  type EnvoyLimit,
} from './envoy-config.ts'
import {
  domainFor,
  type FiledFinding,
  type Imported,
  importedLimit,
  isSmall,
  type Split,
} from './imported.ts'
import type { Place } from './located-yaml.ts'
import { PolicyNames } from './policy-names.ts'

export interface EnvoyFile {
  readonly file: string
  readonly domain: EnvoyDomain
}

export interface EnvoyOptions {
  readonly split: Split
  /** What domains are called here, by what they are called there. */
  readonly domains: ReadonlyMap<string, string>
}

/** How descriptions begin of policies that stand for the giving up of a branch. */
export const GIVEN_UP = 'Nothing limits what'

interface Node {
  readonly entry: MatchEntry
  readonly children: Node[]
  readonly source: { readonly file: string; readonly descriptor: EnvoyDescriptor } | null
  /** Whether some policy ends here; a node without one only leads on. */
  isEnd: boolean
}

/** Policies of the files of each domain together, in the order of the files. */
export function envoyPolicies(files: readonly EnvoyFile[], options: EnvoyOptions): Imported {
  const domains = new Map<string, EnvoyFile[]>()
  for (const file of files) {
    const { domain } = file.domain
    domains.set(domain, [...(domains.get(domain) ?? []), file])
  }
  const parts = [...domains].map(([domain, group]) => new Conversion(domain, options).run(group))
  return {
    policies: parts.flatMap((part) => part.policies),
    leftOut: parts.flatMap((part) => part.leftOut),
    notes: parts.flatMap((part) => part.notes),
  }
}

/** What is in two files of one domain, which the service refuses; a whole domain, unless they are to be merged. */
export function mergeProblems(
  files: readonly EnvoyFile[],
  isMerged: boolean,
): readonly FiledFinding[] {
  const domains = new Set<string>()
  const roots = new Set<string>()
  const problems: FiledFinding[] = []
  for (const { file, domain } of files) {
    const name = domain.domain
    if (domains.has(name) && !isMerged) {
      const message = `duplicate domain '${name}' in config file; --merge-domains puts them together`
      problems.push({ ...domain.place, field: 'domain', file, message })
    }
    domains.add(name)
    for (const descriptor of isMerged ? domain.descriptors : []) {
      const composite = `${name}.${compositeOf(descriptor)}`
      if (roots.has(composite)) {
        const message = `duplicate descriptor composite key '${composite}'`
        problems.push({ ...descriptor.place, file, message })
      }
      roots.add(composite)
    }
  }
  return problems
}

class Conversion {
  readonly #from: string
  readonly #domain: string
  readonly #split: Split
  readonly #names = new PolicyNames()
  readonly #leftOut: FiledFinding[] = []
  readonly #notes: FiledFinding[] = []

  constructor(domain: string, { split, domains }: EnvoyOptions) {
    this.#from = domain
    this.#domain = domainFor(domain, domains)
    this.#split = split
    this.#isRenamedBySelf = this.#domain !== domain && !domains.has(domain)
  }

  readonly #isRenamedBySelf: boolean

  run(files: readonly EnvoyFile[]): Imported {
    const [first] = files
    if (first !== undefined && this.#isRenamedBySelf) {
      const message = `"${this.#from}" cannot be a domain here: have gateways send ${this.#domain}, or choose with --domain '${this.#from}=…'`
      this.#leftOut.push({ ...first.domain.place, field: 'domain', file: first.file, message })
    }
    const roots = files.flatMap(({ file, domain }) => this.#nodes(file, domain.descriptors, 1))
    giveUpAsTheSource(roots)
    const named = roots.flatMap((root) => this.#named(root, []))
    const policies = named.map((one) => this.#policy(one, named))
    return { policies, leftOut: this.#leftOut, notes: this.#notes }
  }

  #nodes(file: string, descriptors: readonly EnvoyDescriptor[], depth: number): Node[] {
    this.#noteConfusions(file, descriptors)
    return descriptors.flatMap((descriptor) => {
      const problem = problemOf(descriptor, depth)
      if (problem !== null) {
        this.#leftOut.push({ ...descriptor.place, file, message: problem })
        return []
      }
      this.#notes.push(...descriptor.unused.map((finding) => ({ ...finding, file })))
      const children = this.#nodes(file, descriptor.descriptors, depth + 1)
      const isEnd = descriptor.limit !== null || descriptor.descriptors.length === 0
      return [{ entry: entryOf(descriptor), children, source: { file, descriptor }, isEnd }]
    })
  }

  /** The service joins key and value with a `_` before it compares them, so that two keys may meet in one text. */
  #noteConfusions(file: string, descriptors: readonly EnvoyDescriptor[]): void {
    for (const one of descriptors) {
      const longer = descriptors.find(
        (other) => other.key !== one.key && compositeOf(other).startsWith(`${one.key}_`),
      )
      if (longer === undefined) continue
      const value = compositeOf(longer).slice(one.key.length + 1)
      const message = `there, ${one.key}=${value} also meets ${compositeOf(longer)}, since key and value are joined; here it does not`
      this.#note({ ...one.place, file }, message)
    }
  }

  #named(node: Node, above: readonly MatchEntry[]): NamedNode[] {
    const match = [...above, node.entry]
    const words = match.flatMap(({ key, value = '' }) => [key, value])
    const own = node.isEnd ? [{ node, match, name: this.#names.take(words) }] : []
    return [...own, ...node.children.flatMap((child) => this.#named(child, match))]
  }

  #policy({ node, match, name }: NamedNode, all: readonly NamedNode[]): PolicyInput {
    const { source } = node
    const limit = source?.descriptor.limit ?? null
    const head = { domain: this.#domain, name, description: descriptionOf(node, match, this.#from) }
    const base = { ...head, match: match.map((entry) => ({ ...entry })) }
    if (source === null || limit === null || limit.unit === null) {
      return { ...base, unlimited: true, ...this.#replacing(limit, all), limits: [] }
    }
    const { descriptor, file } = source
    const { isShadow, isQuota, place } = descriptor
    if (isQuota && !isShadow) {
      const message =
        'there, a check is denied once all its descriptors in quota mode are over their limits; here it is kept as a shadow, which denies nothing'
      this.#leftOut.push({ ...place, file, field: `${place.field}.quota_mode`, message })
    }
    const limits = [
      importedLimit({
        name: `per-${limit.unit}`,
        capacity: limit.requestsPerUnit,
        windowMs: ENVOY_UNITS[limit.unit],
        split: this.#split,
      }),
    ]
    return {
      ...base,
      ...((isShadow || isQuota) && { shadow: true }),
      ...this.#replacing(limit, all),
      ...(isSmall(limits, this.#split) && { acceptSmallLimits: true }),
      limits,
    }
  }

  #replacing(limit: EnvoyLimit | null, all: readonly NamedNode[]): { replaces?: string[] } {
    if (limit === null || limit.replaces.length === 0) return {}
    const replaces = all
      .filter(({ node }) => {
        const name = node.source?.descriptor.limit?.name ?? ''
        return name !== '' && limit.replaces.includes(name)
      })
      .map(({ name }) => name)
    return replaces.length === 0 ? {} : { replaces }
  }

  #note(place: Place & { readonly file: string }, message: string): void {
    this.#notes.push({ ...place, message })
  }
}

interface NamedNode {
  readonly node: Node
  readonly match: readonly MatchEntry[]
  readonly name: string
}

function entryOf({ key, value, isShared }: EnvoyDescriptor): MatchEntry {
  return { key, ...(value !== '' && { value }), ...(isShared && { shared: true }) }
}

function problemOf({ key, value, isShared }: EnvoyDescriptor, depth: number): string | null {
  if (depth > ENTRIES_MAX)
    return `is deeper than the ${ENTRIES_MAX} entries that a descriptor may have here`
  if (key.includes('*')) return 'has a wildcard in its key, and only values may have one here'
  if (isShared && value === '') return 'shares a threshold without a value'
  if (Buffer.byteLength(key) > ENTRY_KEY_BYTES_MAX) return 'has a key that is too long here'
  return Buffer.byteLength(value) > ENTRY_VALUE_BYTES_MAX
    ? 'has a value that is too long here'
    : null
}

function descriptionOf({ source }: Node, match: readonly MatchEntry[], domain: string): string {
  const path = [domain, ...match.map(({ key, value = '' }) => compositeOf({ key, value }))].join(
    '.',
  )
  if (source === null) return `${GIVEN_UP} ${path} leaves over, as before.`
  const { name = '' } = source.descriptor.limit ?? {}
  return `Imported from ${path}${name === '' ? '' : ` (${name})`}.`
}

/** Adds what stands for the giving up of branches, to siblings and all below them. */
function giveUpAsTheSource(siblings: readonly Node[]): void {
  for (const [place, node] of siblings.entries()) {
    const lesser = siblings.filter((other, at) => isLesser(other, node, at > place))
    // The sources' own ends: what is added meanwhile limits nothing, and needs no giving up.
    const depths = new Map(
      lesser.flatMap(keysBelow).map((keys) => [JSON.stringify(keys), keys] as const),
    )
    for (const keys of depths.values()) complete(node, keys)
  }
  for (const node of siblings) giveUpAsTheSource(node.children)
}

/** Whether `other` may govern, here, what the service would leave to `node`. */
function isLesser(other: Node, node: Node, isLater: boolean): boolean {
  if (other === node || other.entry.key !== node.entry.key) return false
  const { value } = node.entry
  const { value: others } = other.entry
  if (value === undefined) return false
  if (others === undefined) return true
  if (!isPattern(others)) return false
  // Whether two wildcards have a value in common is not worth knowing: what is added for nothing changes nothing.
  if (isPattern(value)) return isLater
  const table = emptyPatterns<true>()
  patternItem(table, others, () => true)
  return itemsMatching(table, value).length > 0
}

/** The keys that lead from a node to each end below it, itself included. */
function keysBelow(node: Node): readonly (readonly string[])[] {
  const below = node.children.flatMap((child) =>
    keysBelow(child).map((keys) => [child.entry.key, ...keys]),
  )
  return node.isEnd && node.source !== null ? [[], ...below] : below
}

function complete(node: Node, [key, ...rest]: readonly string[]): void {
  if (key === undefined) {
    node.isEnd = true
    return
  }
  let child = node.children.find(({ entry }) => entry.key === key && entry.value === undefined)
  if (child === undefined) {
    child = { entry: { key }, children: [], source: null, isEnd: false }
    node.children.push(child)
  }
  complete(child, rest)
}
