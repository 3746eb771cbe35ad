/** Splits a request into the parts that the store decides each at once: one slot group, one cost. */
import type { PolicyIndex } from '../../shared/core/policy-index.ts'
import type { QuotaError } from '../../shared/errors.ts'
import { type CheckRequest, invalidCheck } from '../../shared/protocol/check-request.ts'
import { type RouteOverride, routeOf } from './override-route.ts'
import { isPlain, REPLACED } from './route.ts'
import type { DecideContext, GroupPart, RoutedDescriptor } from './slot-group.ts'

/** What one descriptor asks for where the descriptors of a request differ. */
export interface DescriptorTerms {
  readonly cost: number
  readonly override: RouteOverride | null
}

/** A request to decide. */
export interface Ask extends CheckRequest {
  /**
   * The terms of each descriptor, in order; without them `cost` is that of all. With them a descriptor that comes
   * twice is decided twice, as gateways that put descriptors together mean it; without them it is refused.
   */
  readonly terms?: readonly DescriptorTerms[]
}

/** A descriptor whose policy does more than let the store decide. */
export interface AsideDescriptor extends RoutedDescriptor {
  readonly cost: number
}

export interface SplitAsk {
  /** In the order of the descriptors; empty when the store has nothing to decide. */
  readonly parts: readonly GroupPart[]
  readonly aside: readonly AsideDescriptor[]
}

/** The parts of `ask`, and what of it goes another way than to the store. */
export function splitAsk(context: DecideContext, index: PolicyIndex, ask: Ask): SplitAsk {
  const { domain } = ask
  const parts: Part[] = []
  let aside = NOTHING_ASIDE
  for (const { terms, ...routed } of routesOf(context, index, ask)) {
    const { route } = routed
    if (!route.matched) context.metrics.unmatchedDescriptors.count++
    if (!isPlain(route)) aside = [...aside, { ...routed, cost: terms.cost }]
    if (route.targets.length === 0) continue
    if (ask.terms === undefined) refuseTwin(parts, routed)
    addRouted(parts, routed, { domain, index, cost: terms.cost, requestId: ask.requestId })
  }
  return { parts, aside }
}

/** Where each descriptor leads, those left out whose policy that of another one replaces. */
function routesOf(
  context: DecideContext,
  index: PolicyIndex,
  ask: Ask,
): readonly (RoutedDescriptor & { readonly terms: DescriptorTerms })[] {
  const all = ask.descriptors.map((descriptor, position) => {
    const terms = ask.terms?.[position] ?? { cost: ask.cost, override: null }
    const asked = { descriptor, override: terms.override, requestId: ask.requestId }
    const route = routeOf(context, index, ask.domain, asked)
    return { position, descriptor, override: terms.override, terms, route }
  })
  const replaced = all.flatMap(({ route }) => route.policy.replaces)
  if (replaced.length === 0) return all
  return all.map((one) => {
    const { name } = one.route.policy
    return name !== null && replaced.includes(name) ? { ...one, route: REPLACED } : one
  })
}

function addRouted(
  parts: Part[],
  routed: RoutedDescriptor,
  common: Pick<Part, 'domain' | 'index' | 'cost' | 'requestId'>,
): void {
  const { group } = routed.route
  const part = parts.find(
    (one) => one.group === group && one.cost === common.cost && twinIn(one, routed) === null,
  )
  if (part !== undefined) part.routed.push(routed)
  else parts.push({ ...common, group, routed: [routed] })
}

/** Most requests have nothing aside, and share this. */
const NOTHING_ASIDE: readonly AsideDescriptor[] = []

interface Part extends GroupPart {
  readonly routed: RoutedDescriptor[]
}

function refuseTwin(parts: readonly Part[], routed: RoutedDescriptor): void {
  for (const part of parts) {
    const twin = twinIn(part, routed)
    if (twin !== null) throw repeated(routed.position, twin.position)
  }
}

function twinIn(part: Part, { route }: RoutedDescriptor): RoutedDescriptor | null {
  const counter = route.targets[0]?.counter
  return part.routed.find((one) => one.route.targets[0]?.counter === counter) ?? null
}

/** Counting it once or twice would both surprise someone; the caller says which with `cost`. */
function repeated(position: number, earlier: number): QuotaError {
  return invalidCheck([
    {
      field: `descriptors[${position}]`,
      message: `repeats descriptors[${earlier}]`,
      fix: 'send each descriptor once, and a higher cost to spend more',
    },
  ])
}
