/**
 * A reading of the rules by which Envoy's rate limit service decides, kept as plain as the rules: it walks the parsed
 * YAML itself, one branch and no way back, joins keys and values, and counts in windows from 1970 on.
 */
import { parse } from 'yaml'

interface Yaml {
  readonly key: string
  readonly value?: string
  readonly rate_limit?: {
    readonly name?: string
    readonly unit?: string
    readonly requests_per_unit?: number
    readonly unlimited?: boolean
    readonly replaces?: readonly { readonly name: string }[]
  }
  readonly shadow_mode?: boolean
  readonly quota_mode?: boolean
  readonly share_threshold?: boolean
  readonly descriptors?: readonly Yaml[]
}

export type Entries = readonly { readonly key: string; readonly value: string }[]

const SECONDS: Readonly<Record<string, number>> = {
  second: 1,
  minute: 60,
  hour: 3_600,
  day: 86_400,
  week: 604_800,
  month: 2_592_000,
  year: 31_536_000,
}

interface Found {
  readonly descriptor: Yaml
  /** What the counter is named by. */
  readonly counted: readonly string[]
}

export class EnvoyReference {
  readonly #domains: ReadonlyMap<string, readonly Yaml[]>
  readonly #counts = new Map<string, number>()

  constructor(texts: readonly string[]) {
    const domains = new Map<string, Yaml[]>()
    for (const text of texts) {
      const { domain, descriptors = [] } = parse(text, { version: '1.1' })
      domains.set(domain, [...(domains.get(domain) ?? []), ...descriptors])
    }
    this.#domains = domains
  }

  /**
   * Allowed unless some descriptor's limit is spent, or those of all descriptors in quota mode are where there are any;
   * what is denied spends nothing.
   */
  decide(domain: string, descriptors: readonly Entries[], nowMs: number): boolean {
    const found = descriptors.flatMap((entries) => this.limitOf(domain, entries) ?? [])
    const names = found.flatMap(({ descriptor }) =>
      (descriptor.rate_limit?.replaces ?? []).map(({ name }) => name),
    )
    const enforced = found.filter(({ descriptor }) => isEnforced(descriptor, names))
    const counts = new Map<string, number>()
    let isOverSome = false
    const quotas: boolean[] = []
    for (const { descriptor, counted } of enforced) {
      const { unit, requests_per_unit: limit = 0 } = descriptor.rate_limit ?? {}
      const seconds = SECONDS[String(unit).toLowerCase()] ?? Number.NaN
      const key = JSON.stringify([domain, counted, Math.floor(nowMs / (1_000 * seconds))])
      const count = 1 + (counts.get(key) ?? this.#counts.get(key) ?? 0)
      counts.set(key, count)
      if (descriptor.quota_mode === true) quotas.push(count > limit)
      else isOverSome ||= count > limit
    }
    const allowed = !isOverSome && (quotas.length === 0 || quotas.includes(false))
    if (allowed) for (const [key, count] of counts) this.#counts.set(key, count)
    return allowed
  }

  /** The descriptor whose limit applies; null where none does. */
  limitOf(domain: string, entries: Entries): Found | null {
    let level = this.#domains.get(domain) ?? []
    let last: Yaml | undefined
    const counted: string[] = []
    for (const { key, value } of entries) {
      const joined = `${key}_${value}`
      last = branchOf(level, key, joined)
      if (last === undefined) return null
      counted.push(last.share_threshold === true ? composite(last) : joined)
      level = last.descriptors ?? []
    }
    return last?.rate_limit === undefined ? null : { descriptor: last, counted }
  }
}

function branchOf(level: readonly Yaml[], key: string, joined: string): Yaml | undefined {
  return (
    level.find((one) => composite(one) === joined) ??
    level.find((one) => one.value?.includes('*') && fits(composite(one), joined)) ??
    level.find((one) => composite(one) === key)
  )
}

function isEnforced(descriptor: Yaml, replaced: readonly string[]): boolean {
  const { rate_limit: limit, shadow_mode: isShadow } = descriptor
  if (limit === undefined || limit.unlimited === true) return false
  return isShadow !== true && !replaced.includes(limit.name ?? '')
}

function composite({ key, value }: Yaml): string {
  return value === undefined || value === '' ? key : `${key}_${value}`
}

function fits(pattern: string, text: string): boolean {
  const parts = pattern.split('*').map((part) => part.replace(/[.*+?^${}()|[\]\\]/g, '\\$&'))
  return new RegExp(`^${parts.join('.*')}$`, 's').test(text)
}
