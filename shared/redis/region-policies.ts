import type { Boot } from '../core/algorithms/algorithm.ts'
import { stampLimit } from '../core/algorithms/stamp-limit.ts'
import { parseCounterId } from '../core/counter-id.ts'
import type { CounterId } from '../core/descriptor.ts'
import type { Policy, RegionLimit, RegionPolicy, RegionPolicySpec } from '../core/policy.ts'
import { type StampedPolicy, stampOverrides } from '../core/stamp-overrides.ts'
import { VariantIndex } from '../core/variant-index.ts'
import type { Stretch } from '../runtime/stretch.ts'

/** Texts of a hash of policies by id. */
export type Texts = ReadonlyMap<string, string>

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

/** What Redis holds of the policies, as it was read or written last. */
export interface StoredTexts {
  readonly plane: Texts
  readonly region: Texts
}

const NOTHING_STORED: StoredTexts = { plane: new Map(), region: new Map() }

/** The region's policies as they were written last, and what a change of them comes to. */
export class WrittenPolicies {
  #texts: StoredTexts
  #policies: ReadonlyMap<number, RegionPolicy>
  #limits: ReadonlyMap<number, RegionLimit>
  #variants: VariantIndex
  version: number

  constructor(
    version: number,
    policies: readonly RegionPolicy[] = [],
    texts: StoredTexts = NOTHING_STORED,
  ) {
    this.version = version
    this.#texts = texts
    this.#policies = new Map(policies.map((policy) => [policy.id, policy]))
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

  /** A policy of the region with each limit stamped; one that does not change stays word for word. */
  stamp({ overrides, ...policy }: RegionPolicySpec, change: StampedChange): RegionPolicy {
    const limits = policy.limits.map((limit) =>
      stampLimit(this.#limits.get(limit.id), limit, change),
    )
    const spec = { ...policy, limits, ...(overrides !== undefined && { overrides }) }
    return { ...policy, limits, ...overridesOf(this.#policies.get(policy.id), spec, change) }
  }

  /** What `plane` and `region` come to, worked out in parts. */
  async changeTo(
    wanted: { readonly plane: Iterable<Policy>; readonly region: Iterable<RegionPolicySpec> },
    change: StampedChange,
    stretch: Stretch,
  ): Promise<PoliciesChange> {
    const policies: RegionPolicy[] = []
    const [plane, region] = [new HashDraft(this.#texts.plane), new HashDraft(this.#texts.region)]
    for (const spec of wanted.region) {
      const policy = this.stamp(spec, change)
      policies.push(policy)
      region.put(policy.id, JSON.stringify(policy))
      await stretch.breathe()
    }
    for (const policy of wanted.plane) {
      plane.put(policy.id, planeText(policy))
      await stretch.breathe()
    }
    return { policies, plane: plane.end(), region: region.end() }
  }

  /** What is to be known once `change` was written. */
  after({ policies, plane, region }: PoliciesChange, version: number): WrittenPolicies {
    return new WrittenPolicies(version, policies, { plane: plane.texts, region: region.texts })
  }
}

export interface PoliciesChange {
  readonly policies: readonly RegionPolicy[]
  readonly plane: HashChange
  readonly region: HashChange
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

/** Of the plane's policies most are the same objects from one change to the next. */
const planeTexts = new WeakMap<Policy, string>()

function planeText(policy: Policy): string {
  let text = planeTexts.get(policy)
  if (text === undefined) {
    text = JSON.stringify(policy)
    planeTexts.set(policy, text)
  }
  return text
}

class HashDraft {
  readonly #before: Texts
  readonly #texts = new Map<string, string>()
  readonly #set: string[] = []

  constructor(before: Texts) {
    this.#before = before
  }

  put(id: number, text: string): void {
    const key = String(id)
    this.#texts.set(key, text)
    if (this.#before.get(key) !== text) this.#set.push(key, text)
  }

  end(): HashChange {
    const removed = [...this.#before.keys()].filter((id) => !this.#texts.has(id))
    return { set: this.#set, removed, texts: this.#texts }
  }
}

function limitsOf(policies: readonly RegionPolicy[]): ReadonlyMap<number, RegionLimit> {
  return new Map(policies.flatMap(({ limits }) => limits.map((limit) => [limit.id, limit])))
}
