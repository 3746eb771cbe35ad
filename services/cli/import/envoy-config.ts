/**
 * Reads the YAML of Envoy's rate limit service (envoyproxy/ratelimit) and refuses what that refuses, in its words,
 * with the line and the field; the original stops at the first problem, this goes on.
 */

import { suggestion } from '../../../shared/runtime/similar.ts'
import {
  entryOf,
  type Finding,
  type LocatedNode,
  type Place,
  parseLocated,
} from './located-yaml.ts'

/** The units of the service's protocol, each with the length of its windows in milliseconds. */
export const ENVOY_UNITS = {
  second: 1_000,
  minute: 60_000,
  hour: 3_600_000,
  day: 86_400_000,
  week: 7 * 86_400_000,
  month: 30 * 86_400_000,
  year: 365 * 86_400_000,
} as const
export type EnvoyUnit = keyof typeof ENVOY_UNITS

export interface EnvoyLimit {
  readonly name: string
  /** Null: unlimited. */
  readonly unit: EnvoyUnit | null
  readonly requestsPerUnit: number
  readonly replaces: readonly string[]
}

export interface EnvoyDescriptor {
  readonly place: Place
  readonly key: string
  /** Empty: every value. */
  readonly value: string
  readonly limit: EnvoyLimit | null
  readonly isShadow: boolean
  readonly isQuota: boolean
  /** All values that the wildcard matches have one counter. */
  readonly isShared: boolean
  readonly descriptors: readonly EnvoyDescriptor[]
  /** Fields that only change what is measured or said beside a decision. */
  readonly unused: readonly Finding[]
}

export interface EnvoyDomain {
  readonly place: Place
  readonly domain: string
  readonly descriptors: readonly EnvoyDescriptor[]
}

const KEYS = [
  'domain',
  'key',
  'value',
  'descriptors',
  'rate_limit',
  'unit',
  'requests_per_unit',
  'unlimited',
  'shadow_mode',
  'quota_mode',
  'name',
  'replaces',
  'detailed_metric',
  'value_to_metric',
  'share_threshold',
  'metadata',
]

const UINT32_MAX = 4_294_967_295

/** The domain that a file configures; null when something is wrong with it. */
export function parseEnvoyConfig(text: string): {
  readonly domain: EnvoyDomain | null
  readonly problems: readonly Finding[]
} {
  const { roots, problems } = parseLocated(text, '1.1')
  if (problems.length > 0) return { domain: null, problems: problems.map(asLoadError) }
  // As the original does, which reads the first document and no other.
  const [root = null] = roots
  const reader = new ConfigReader()
  const domain = reader.domain(root)
  return { domain: reader.problems.length === 0 ? domain : null, problems: reader.problems }
}

function asLoadError(problem: Finding): Finding {
  return { ...problem, message: `error loading config file: ${problem.message}` }
}

class ConfigReader {
  readonly problems: Finding[] = []

  domain(root: LocatedNode | null): EnvoyDomain | null {
    const place = { line: root?.line ?? 1, field: root?.field ?? '' }
    if (root !== null && root.kind !== 'map') {
      this.#refuse(place, 'error loading config file: the document is no map')
      return null
    }
    if (root !== null) this.#checkKeys(root)
    const named = root === null ? null : entryOf(root, 'domain')
    const domain = named === null ? '' : this.#text(named)
    if (domain === '') {
      this.#refuse(
        { line: named?.line ?? place.line, field: 'domain' },
        'config file cannot have empty domain',
      )
    }
    const list = root === null ? null : entryOf(root, 'descriptors')
    return { place, domain, descriptors: this.#descriptors(list, `${domain}.`) }
  }

  #refuse({ line, field }: Place, message: string): void {
    this.problems.push({ line, field, message })
  }

  /** Every name in the file must be one that the service knows somewhere; what metadata holds is free. */
  #checkKeys(map: LocatedNode & { readonly kind: 'map' }): void {
    for (const { name, node } of map.entries) {
      if (name.kind !== 'scalar' || typeof name.value !== 'string') {
        const said = name.kind === 'scalar' ? name.text : name.kind
        this.#refuse(name, `config error, key is not of type string: ${said}`)
      } else if (!KEYS.includes(name.text)) {
        const hint = suggestion(name.text, KEYS)
        this.#refuse(name, `config error, unknown key '${name.text}'${hint}`)
      } else if (name.text !== 'metadata') this.#checkValue(node)
    }
  }

  #checkValue(node: LocatedNode): void {
    if (node.kind === 'map') this.#checkKeys(node)
    else if (node.kind === 'list') for (const item of node.items) this.#checkItem(item)
    else if (!isLeaf(node.value)) this.#refuse(node, `error checking config: ${node.text}`)
  }

  #checkItem(item: LocatedNode): void {
    if (item.kind === 'map') {
      this.#checkKeys(item)
      return
    }
    const said = item.kind === 'scalar' ? item.text : 'a list'
    this.#refuse(item, `config error, yaml file contains list of type other than map: ${said}`)
  }

  #descriptors(list: LocatedNode | null, parent: string): readonly EnvoyDescriptor[] {
    if (list === null || isNothing(list)) return []
    if (list.kind !== 'list') {
      this.#refuse(list, 'error loading config file: descriptors is no list')
      return []
    }
    const seen = new Set<string>()
    return list.items.flatMap((item) => {
      // What is no map was refused with the keys.
      if (item.kind !== 'map') return []
      const descriptor = this.#descriptor(item, parent)
      const composite = compositeOf(descriptor)
      if (descriptor.key !== '' && seen.has(composite)) {
        this.#refuse(item, `duplicate descriptor composite key '${parent}${composite}'`)
      }
      seen.add(composite)
      return [descriptor]
    })
  }

  #descriptor(node: LocatedNode, parent: string): EnvoyDescriptor {
    const key = this.#textAt(node, 'key')
    const value = this.#textAt(node, 'value')
    const composite = compositeOf({ key, value })
    if (key === '') this.#refuse(placeOf(node, 'key'), 'descriptor has empty key')
    const isShared = this.#flagAt(node, 'share_threshold')
    if (isShared && !composite.includes('*')) {
      this.#refuse(
        placeOf(node, 'share_threshold'),
        `share_threshold can only be used with wildcard values, but found key '${composite}'`,
      )
    }
    return {
      place: { line: node.line, field: node.field },
      key,
      value,
      limit: this.#limit(entryOf(node, 'rate_limit')),
      isShadow: this.#flagAt(node, 'shadow_mode'),
      isQuota: this.#flagAt(node, 'quota_mode'),
      isShared,
      descriptors: this.#descriptors(entryOf(node, 'descriptors'), `${parent}${composite}.`),
      unused: this.#unused(node),
    }
  }

  #unused(node: LocatedNode): readonly Finding[] {
    return ['detailed_metric', 'value_to_metric', 'metadata'].flatMap((name) => {
      const found = entryOf(node, name)
      const isSet = name === 'metadata' ? found !== null : this.#flagAt(node, name)
      if (found === null || !isSet) return []
      const message =
        name === 'metadata'
          ? 'is left out; it changes no decision'
          : 'is left out: metrics here are by policy, and keys are seen with quotaplane usage'
      return [{ line: found.line, field: found.field, message }]
    })
  }

  #limit(node: LocatedNode | null): EnvoyLimit | null {
    if (node === null || isNothing(node)) return null
    if (node.kind !== 'map') {
      this.#refuse(node, 'error loading config file: rate_limit is no map')
      return null
    }
    const name = this.#textAt(node, 'name')
    const isUnlimited = this.#flagAt(node, 'unlimited')
    const said = this.#textAt(node, 'unit')
    const unit = unitOf(said)
    if (isUnlimited && unit !== null) {
      this.#refuse(placeOf(node, 'unit'), 'should not specify rate limit unit when unlimited')
    }
    if (!isUnlimited && unit === null) {
      const hint = suggestion(said, Object.keys(ENVOY_UNITS))
      this.#refuse(placeOf(node, 'unit'), `invalid rate limit unit '${said}'${hint}`)
    }
    return {
      name,
      unit: isUnlimited ? null : unit,
      requestsPerUnit: this.#uint32(entryOf(node, 'requests_per_unit')),
      replaces: this.#replaces(entryOf(node, 'replaces'), name),
    }
  }

  #replaces(list: LocatedNode | null, own: string): readonly string[] {
    if (list === null || isNothing(list)) return []
    if (list.kind !== 'list') {
      this.#refuse(list, 'error loading config file: replaces is no list')
      return []
    }
    return list.items.map((item) => {
      const name = this.#textAt(item, 'name')
      if (name === '') this.#refuse(item, 'should not have an empty replaces entry')
      else if (name === own) {
        this.#refuse(item, 'replaces should not contain name of same descriptor')
      }
      return name
    })
  }

  #uint32(node: LocatedNode | null): number {
    if (node === null || isNothing(node)) return 0
    const value = node.kind === 'scalar' ? node.value : null
    if (typeof value === 'number' && Number.isInteger(value) && value >= 0 && value <= UINT32_MAX) {
      return value
    }
    const said = node.kind === 'scalar' ? node.text : node.kind
    this.#refuse(node, `error loading config file: cannot unmarshal ${said} into uint32`)
    return 0
  }

  #flagAt(node: LocatedNode, name: string): boolean {
    const found = entryOf(node, name)
    if (found === null || isNothing(found)) return false
    if (found.kind === 'scalar' && typeof found.value === 'boolean') return found.value
    const said = found.kind === 'scalar' ? found.text : found.kind
    const problem = `error loading config file: cannot unmarshal ${said} into bool`
    if (!this.problems.some(({ field, line }) => field === found.field && line === found.line)) {
      this.#refuse(found, problem)
    }
    return false
  }

  #textAt(node: LocatedNode, name: string): string {
    const found = entryOf(node, name)
    return found === null ? '' : this.#text(found)
  }

  #text(node: LocatedNode): string {
    if (node.kind === 'scalar') return node.text
    this.#refuse(node, `error loading config file: cannot unmarshal a ${node.kind} into string`)
    return ''
  }
}

/** What the service compares: key and value joined. */
export function compositeOf({ key, value }: Pick<EnvoyDescriptor, 'key' | 'value'>): string {
  return value === '' ? key : `${key}_${value}`
}

function unitOf(text: string): EnvoyUnit | null {
  const unit = text.toLowerCase()
  return Object.hasOwn(ENVOY_UNITS, unit) ? (unit as EnvoyUnit) : null
}

function placeOf(node: LocatedNode, name: string): Place {
  const { line } = entryOf(node, name) ?? node
  return { line, field: node.field === '' ? name : `${node.field}.${name}` }
}

function isNothing(node: LocatedNode): boolean {
  return node.kind === 'scalar' && node.value === null
}

function isLeaf(value: unknown): boolean {
  if (value === null || typeof value === 'string' || typeof value === 'boolean') return true
  return typeof value === 'number' && Number.isInteger(value)
}
