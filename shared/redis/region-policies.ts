import type { Boot } from '../core/algorithms/algorithm.ts'
import { stampLimit } from '../core/algorithms/stamp-limit.ts'
import { parseCounterId } from '../core/counter-id.ts'
import type { CounterId } from '../core/descriptor.ts'
import type { Policy, RegionLimit, RegionPolicy, RegionPolicySpec } from '../core/policy.ts'

import { type StampedPolicy, stampOverrides } from '../core/stamp-overrides.ts'
import { VariantIndex } from '../core/variant-index.ts'

/** Texts of a hash of policies by id. */
type Texts = ReadonlyMap<string, string>

/** What must be written of a hash: fields and values in turn, and ids that are no more. */
export interface HashChange {
  readonly set: readonly string[]
  readonly removed: readonly string[]
  readonly texts: Texts
}

export interface StampedChange {
  readonly version: number
  readonly nowUs: number
  readonly boot: Boot
}

/** The region's policies as they were written last, and what a change of them comes to. */
export class WrittenPolicies {
  #plane: Texts
  #region: Texts
  #policies: readonly RegionPolicy[]
  #limits: ReadonlyMap<number, RegionLimit>
  #variants: VariantIndex
  version: number

  constructor(version: number, plane: readonly Policy[], policies: readonly RegionPolicy[]) {
    this.version = version
    this.#plane = textsOf(plane)
    this.#region = textsOf(policies)
    this.#policies = policies
    this.#limits = limitsOf(policies)
    this.#variants = new VariantIndex(policies)
  }

  /** The limit of a counter with the numbers that its tenant has; undefined when it is no more. */
  limitFor(id: CounterId): RegionLimit | undefined {
    const parts = parseCounterId(id)
    const limit = this.#limits.get(parts?.limitId ?? 0)
    return limit === undefined || parts === null ? limit : this.#variants.of(limit, parts.name)
  }

  /** Whether a counter's numbers can be told from its id. Where they cannot, nothing may be lent of it. */
  isReadable(id: CounterId): boolean {
    const parts = parseCounterId(id)
    return parts !== null && this.#variants.isReadable(parts.limitId, parts.name)
  }

  /** Limits as they are enforced, by id. */
  get limits(): ReadonlyMap<number, RegionLimit> {
    return this.#limits
  }

  /** The region's policies with each limit stamped; policies that do not change stay word for word. */
  stamp(wanted: readonly RegionPolicySpec[], change: StampedChange): readonly RegionPolicy[] {
    const before = new Map(this.#policies.map((policy) => [policy.id, policy]))
    return wanted.map(({ overrides, ...policy }) => {
      const limits = policy.limits.map((limit) =>
        stampLimit(this.#limits.get(limit.id), limit, change),
      )
      const spec = { ...policy, limits, ...(overrides !== undefined && { overrides }) }
      return { ...policy, limits, ...overridesOf(before.get(policy.id), spec, change) }
    })
  }

  planeChange(plane: readonly Policy[]): HashChange {
    return changeOf(this.#plane, textsOf(plane))
  }

  regionChange(policies: readonly RegionPolicy[]): HashChange {
    return changeOf(this.#region, textsOf(policies))
  }

  /** Notes what was written. */
  accept(written: {
    readonly version: number
    readonly plane: HashChange
    readonly region: HashChange
    readonly policies: readonly RegionPolicy[]
  }): void {
    this.version = written.version
    this.#plane = written.plane.texts
    this.#region = written.region.texts
    this.#policies = written.policies
    this.#limits = limitsOf(written.policies)
    this.#variants = new VariantIndex(written.policies)
  }
}

/** The stamped overrides, with the version at which they last changed. */
function overridesOf(
  before: RegionPolicy | undefined,
  after: StampedPolicy,
  change: StampedChange,
): Pick<RegionPolicy, 'overrides' | 'overridesVersion'> {
  const overrides = stampOverrides(before, after, change)
  const isSame = JSON.stringify(overrides) === JSON.stringify(before?.overrides)
  const version = isSame ? before?.overridesVersion : change.version
  return {
    ...(overrides !== undefined && { overrides }),
    ...(version !== undefined && { overridesVersion: version }),
  }
}

function changeOf(before: Texts, texts: Texts): HashChange {
  const changed = [...texts].filter(([id, text]) => before.get(id) !== text)
  const removed = [...before.keys()].filter((id) => !texts.has(id))
  return { set: changed.flat(), removed, texts }
}

function textsOf(policies: readonly { readonly id: number }[]): Texts {
  return new Map(policies.map((policy) => [String(policy.id), JSON.stringify(policy)]))
}

function limitsOf(policies: readonly RegionPolicy[]): ReadonlyMap<number, RegionLimit> {
  return new Map(policies.flatMap(({ limits }) => limits.map((limit) => [limit.id, limit])))
}
