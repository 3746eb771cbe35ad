import type { PolicyInput } from '../../../shared/protocol/policy.ts'
import { DOMAIN_PATTERN } from '../../../shared/protocol/policy.ts'
import type { Finding } from './located-yaml.ts'

/** What a configuration of another system comes to here. */
export interface Imported {
  /** In an order that must be kept: of two wildcards that both fit, the older policy governs. */
  readonly policies: readonly PolicyInput[]
  /** What would be decided otherwise than before. */
  readonly leftOut: readonly FiledFinding[]
  /** What changes, but no decision. */
  readonly notes: readonly FiledFinding[]
}

export interface FiledFinding extends Finding {
  readonly file: string
}

/** Per cent of each limit by region. */
export type Split = Readonly<Record<string, number>>

/** How a limit is written that is counted in windows of a fixed length. */
export function importedLimit(limit: {
  readonly name: string
  readonly capacity: number
  readonly windowMs: number
  readonly split: Split
}): PolicyInput['limits'][number] {
  const { name, capacity, windowMs, split } = limit
  return { name, algorithm: 'fixed_window', capacity, windowMs, split }
}

/** Strict limits with fewer tokens than regions are accepted: they are what the other system enforced. */
export function isSmall(limits: readonly { readonly capacity: number }[], split: Split): boolean {
  const regions = Object.values(split).filter((weight) => weight > 0).length
  return limits.some(({ capacity }) => capacity > 0 && capacity < regions)
}

/** The domain that gateways must send, and whether it is another than before. */
export function domainFor(name: string, renamed: ReadonlyMap<string, string>): string {
  const given = renamed.get(name)
  if (given !== undefined) return given
  if (DOMAIN_PATTERN.test(name)) return name
  const usable = name.replace(/[^A-Za-z0-9._-]+/g, '-').replace(/^[^A-Za-z0-9]+/, '')
  return usable.slice(0, 63) || 'imported'
}
