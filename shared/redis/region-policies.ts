import type { Boot } from '../core/algorithms/algorithm.ts'
import { stampLimit } from '../core/algorithms/stamp-limit.ts'
import type { Policy, RegionLimit, RegionPolicy, RegionPolicySpec } from '../core/policy.ts'

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
  #limits: ReadonlyMap<number, RegionLimit>
  version: number

  constructor(version: number, plane: readonly Policy[], policies: readonly RegionPolicy[]) {
    this.version = version
    this.#plane = textsOf(plane)
    this.#region = textsOf(policies)
    this.#limits = limitsOf(policies)
  }

  /** Limits as they are enforced, by id. */
  get limits(): ReadonlyMap<number, RegionLimit> {
    return this.#limits
  }

  /** The region's policies with each limit stamped; policies that do not change stay word for word. */
  stamp(wanted: readonly RegionPolicySpec[], change: StampedChange): readonly RegionPolicy[] {
    return wanted.map((policy) => ({
      ...policy,
      limits: policy.limits.map((limit) => stampLimit(this.#limits.get(limit.id), limit, change)),
    }))
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
    this.#limits = limitsOf(written.policies)
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
