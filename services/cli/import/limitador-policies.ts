/**
 * Makes policies of Limitador's limits.
 *
 * There every limit whose conditions hold applies to a descriptor, whatever else the descriptor has; here one policy
 * governs it, by all of its entries. So the entries that checks have, a shape, are known first: those that the limits
 * of a namespace name together, or what the operator says. The values that conditions name cut a shape into cells, and
 * each cell with limits is a policy. A limit that counts together what two policies would count apart has no place
 * here and is left out.
 */
import type { MatchEntry } from '../../../shared/core/policy.ts'
import type { PolicyInput } from '../../../shared/protocol/policy.ts'
import {
  domainFor,
  type FiledFinding,
  type Imported,
  importedLimit,
  isSmall,
  type Split,
} from './imported.ts'
import type { LimitadorLimit } from './limitador-limits.ts'
import { PolicyNames } from './policy-names.ts'

export interface LimitadorOptions {
  readonly split: Split
  readonly domains: ReadonlyMap<string, string>
  /** Keys of the entries of a descriptor, in their order; empty: those that limits name. */
  readonly shapes: readonly (readonly string[])[]
}

/** Combinations of values that the conditions of one namespace may come to. */
const CELLS_MAX = 4_096

/** A value for each key of a shape; null: any that no condition names. */
type Cell = readonly (string | null)[]

interface Placed {
  readonly cell: Cell
  readonly limits: readonly LimitadorLimit[]
}

export function limitadorPolicies(
  file: string,
  limits: readonly LimitadorLimit[],
  options: LimitadorOptions,
): Imported {
  const conversion = new Conversion(file, options)
  const groups = new Map<string, LimitadorLimit[]>()
  for (const limit of limits) {
    const key = JSON.stringify([limit.namespace, limit.descriptor ?? 0])
    groups.set(key, [...(groups.get(key) ?? []), limit])
  }
  for (const group of groups.values()) conversion.namespace(group)
  return conversion
}

class Conversion implements Imported {
  readonly policies: PolicyInput[] = []
  readonly leftOut: FiledFinding[] = []
  readonly notes: FiledFinding[] = []
  readonly #file: string
  readonly #options: LimitadorOptions
  readonly #names = new Map<string, PolicyNames>()
  readonly #shapes = new Set<string>()

  constructor(file: string, options: LimitadorOptions) {
    this.#file = file
    this.#options = options
  }

  /** Limits of one namespace about one descriptor of a check. */
  namespace(group: readonly LimitadorLimit[]): void {
    const [first] = group
    if (first === undefined) return
    const domain = this.#domain(first)
    const usable = group.filter((limit) => this.#isUsable(limit))
    const shapes = this.#shapesOf(usable)
    const byShape = new Map<string, LimitadorLimit[]>()
    for (const limit of usable) {
      const fitting = shapes.filter((shape) => keysOf(limit).every((key) => shape.includes(key)))
      const [shape] = fitting
      if (shape === undefined || fitting.length > 1) {
        this.#leaveOut(limit, shape === undefined ? NO_SHAPE : SEVERAL_SHAPES)
        continue
      }
      const key = JSON.stringify(shape)
      byShape.set(key, [...(byShape.get(key) ?? []), limit])
    }
    for (const [key, members] of byShape) this.#shape(domain, JSON.parse(key), members)
  }

  #domain(limit: LimitadorLimit): string {
    const { namespace, place } = limit
    const { domains } = this.#options
    const domain = domainFor(namespace, domains)
    if (domain !== namespace && !domains.has(namespace) && !this.#names.has(domain)) {
      const message = `"${namespace}" cannot be a domain here: have gateways send ${domain}, or choose with --domain '${namespace}=…'`
      this.leftOut.push({ ...place, field: `${place.field}.namespace`, file: this.#file, message })
    }
    if (!this.#names.has(domain)) this.#names.set(domain, new PolicyNames())
    return domain
  }

  #isUsable(limit: LimitadorLimit): boolean {
    this.leftOut.push(...limit.unsupported.map((one) => ({ ...one, file: this.#file })))
    return limit.unsupported.length === 0
  }

  #shapesOf(limits: readonly LimitadorLimit[]): readonly (readonly string[])[] {
    if (this.#options.shapes.length > 0) return this.#options.shapes
    const keys = [...new Set(limits.flatMap(keysOf))]
    return keys.length === 0 ? [] : [keys]
  }

  #shape(domain: string, shape: readonly string[], members: readonly LimitadorLimit[]): void {
    const identity = JSON.stringify([domain, [...shape].sort()])
    if (this.#shapes.has(identity)) {
      for (const limit of members) this.#leaveOut(limit, OTHER_PLACE)
      return
    }
    this.#shapes.add(identity)
    const [first] = members
    if (first !== undefined) {
      const message = `the limits of ${first.namespace} apply to descriptors with exactly these entries: ${shape.join(', ')} (say otherwise with --descriptor)`
      this.notes.push({ ...first.place, file: this.#file, message })
    }
    const kept: LimitadorLimit[] = []
    for (const limit of members) {
      const problem = problemOf([...kept, limit], shape)
      if (problem === null) kept.push(limit)
      else this.#leaveOut(limit, problem)
    }
    for (const placed of cellsOf(kept, shape)) {
      this.policies.push(this.#policy(domain, shape, placed))
    }
  }

  #policy(domain: string, shape: readonly string[], { cell, limits }: Placed): PolicyInput {
    const match = shape.map((key, place) => entryOf(key, cell[place] ?? null, limits))
    const words = match.flatMap(({ key, value = '' }) => [key, value])
    const names = this.#names.get(domain) ?? new PolicyNames()
    const base = { domain, name: names.take(words), match }
    if (limits.length === 0) return { ...base, unlimited: true, limits: [] }
    const limitNames = new PolicyNames()
    const { split } = this.#options
    const written = limits.map(({ name, seconds, maxValue }) =>
      importedLimit({
        name: limitNames.take([name ?? `per-${seconds}-seconds`]),
        capacity: maxValue,
        windowMs: seconds * 1_000,
        split,
      }),
    )
    return {
      ...base,
      description: `Imported from ${limits.map(({ place }) => `${this.#file}:${place.line}`).join(', ')}.`,
      ...(isSmall(written, split) && { acceptSmallLimits: true }),
      limits: written,
    }
  }

  #leaveOut({ place }: LimitadorLimit, message: string): void {
    this.leftOut.push({ ...place, file: this.#file, message })
  }
}

const NO_SHAPE =
  'is about entries that no descriptor is known to have: say which have them with --descriptor'
const SEVERAL_SHAPES =
  'is about several of the descriptors given, and would count them together: here each counts apart'
const OTHER_PLACE =
  'is about another descriptor of a check with the same entries: which place a descriptor has makes no difference here'

/** Why the last of `limits` cannot stand beside the others; null when it can. */
function problemOf(limits: readonly LimitadorLimit[], shape: readonly string[]): string | null {
  const limit = limits.at(-1)
  const others = limits.slice(0, -1)
  if (limit === undefined) return null
  const twin = others.find((other) => identityOf(other) === identityOf(limit))
  if (twin !== undefined) {
    return `has the namespace, seconds, conditions and variables of ${twin.place.field}, and one of them counts`
  }
  if (cellCount(limits, shape) > CELLS_MAX) return 'makes too many combinations of conditions'
  const cells = cellsOf(limits, shape)
  const torn = limits.find((one) => isTorn(one, cells, shape))
  if (torn !== undefined) {
    const what = torn === limit ? 'counts' : `would have ${torn.place.field} count`
    return `${what} together what conditions of other limits tell apart; here each would be counted apart`
  }
  const mixed = cells.find(({ cell, limits: placed }) => !isOneCount(placed, cell, shape))
  if (mixed === undefined) return null
  return 'counts by other variables than a limit of the same descriptors; here limits that apply together count alike'
}

/** Whether a limit has one counter where several policies would have one each. */
function isTorn(
  limit: LimitadorLimit,
  cells: readonly Placed[],
  shape: readonly string[],
): boolean {
  const counts = cells
    .filter(({ limits }) => limits.includes(limit))
    .map(({ cell }) => {
      const told = shape.map((key, place) => (limit.variables.includes(key) ? cell[place] : '*'))
      return JSON.stringify(told)
    })
  return new Set(counts).size < counts.length
}

/** Whether all of `limits` tell the same values apart of what a cell leaves open. */
function isOneCount(
  limits: readonly LimitadorLimit[],
  cell: Cell,
  shape: readonly string[],
): boolean {
  const open = shape.filter((_, place) => cell[place] === null)
  const counts = limits.map(({ variables }) => open.filter((key) => variables.includes(key)).join())
  return new Set(counts).size <= 1
}

/** Each cell that limits apply to, and those that must say that none does. */
function cellsOf(limits: readonly LimitadorLimit[], shape: readonly string[]): readonly Placed[] {
  const placed = cut(shape, { cell: [], limits })
  return placed.filter(
    (one) => one.limits.length > 0 || placed.some((other) => mayTake(other, one.cell)),
  )
}

/** Only where limits remain that name values of a key is a cell cut by them: what is cut is counted apart. */
function cut(shape: readonly string[], placed: Placed): readonly Placed[] {
  const key = shape[placed.cell.length]
  if (key === undefined) return [placed]
  return valuesOf(placed.limits, key).flatMap((value) => {
    const left = placed.limits.filter((limit) => allows(limit, key, value))
    return cut(shape, { cell: [...placed.cell, value], limits: left })
  })
}

/** More than there can be. */
function cellCount(limits: readonly LimitadorLimit[], shape: readonly string[]): number {
  return shape.reduce((count, key) => count * valuesOf(limits, key).length, 1)
}

/** Values of a key that conditions name, and null for all others. */
function valuesOf(limits: readonly LimitadorLimit[], key: string): readonly (string | null)[] {
  const named = limits.flatMap(({ conditions }) =>
    conditions.filter((condition) => condition.key === key).map(({ value }) => value),
  )
  return [...new Set(named), null]
}

function allows({ conditions }: LimitadorLimit, key: string, value: string | null): boolean {
  return conditions
    .filter((condition) => condition.key === key)
    .every((condition) => condition.isEqual === (condition.value === value))
}

/** Whether the policy of `other` would govern checks of `cell` if that had none. */
function mayTake(other: Placed, cell: Cell): boolean {
  if (other.limits.length === 0) return false
  const overlaps = other.cell.every(
    (value, place) => value === null || cell[place] === null || value === cell[place],
  )
  const place = other.cell.findIndex((value, at) => value !== cell[at])
  return overlaps && other.cell[place] === null
}

function entryOf(key: string, value: string | null, limits: readonly LimitadorLimit[]): MatchEntry {
  if (value !== null) return { key, value }
  const isApart = limits.length === 0 || limits.some(({ variables }) => variables.includes(key))
  return isApart ? { key } : { key, shared: true }
}

function keysOf({ conditions, variables }: LimitadorLimit): readonly string[] {
  return [...new Set([...conditions.map(({ key }) => key), ...variables])]
}

function identityOf(limit: LimitadorLimit): string {
  const { seconds, conditions, variables } = limit
  const said = conditions.map((one) => JSON.stringify(Object.entries(one).sort())).sort()
  return JSON.stringify([seconds, said, [...variables].sort()])
}
