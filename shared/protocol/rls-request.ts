import type { Descriptor } from '../core/descriptor.ts'
import { TOKENS_MAX } from '../core/units.ts'
import type { InputProblem } from '../errors.ts'
import { invalidCheck, parseCheckRequest } from './check-request.ts'
import type { OverrideUnit, RlsDescriptor, RlsRequest } from './rls-messages.ts'

/** Numbers that a descriptor brings along, in place of those of any policy. */
export interface LimitOverride {
  readonly requestsPerUnit: number
  readonly unit: Exclude<OverrideUnit, 'UNKNOWN'>
}

export interface RlsTerms {
  /** 0 reads without spending. */
  readonly cost: number
  readonly override: LimitOverride | null
}

/** A request of Envoy's rate limit service, checked. */
export interface RlsAsk {
  readonly domain: string
  readonly descriptors: readonly Descriptor[]
  readonly cost: number
  readonly terms: readonly RlsTerms[]
}

const OVERRIDE_UNITS = ['SECOND', 'MINUTE', 'HOUR', 'DAY', 'MONTH', 'YEAR'] as const

/**
 * The ask that `request` makes; throws QUOTA_INVALID_INPUT for an empty domain, for no descriptors, and for what
 * `POST /v1/check` would refuse.
 *
 * The addend of the request counts for descriptors without their own, and is 1 when it is 0, which is how an unset
 * field arrives. A descriptor's own addend of 0 is meant: it reads. Addends above the largest cost are that cost.
 */
export function parseRlsRequest(request: RlsRequest): RlsAsk {
  const cost = clampCost(request.hits_addend === 0 ? 1 : request.hits_addend)
  const descriptors = request.descriptors.map(({ entries }) => ({ entries }))
  const check = parseCheckRequest({ domain: request.domain, descriptors, cost })
  const problems: InputProblem[] = []
  const terms = request.descriptors.map((descriptor, position) => ({
    cost: descriptor.hits_addend === null ? cost : clampCost(descriptor.hits_addend.value),
    override: parseOverride(descriptor, position, problems),
  }))
  if (problems.length > 0) throw invalidCheck(problems)
  return { ...check, terms }
}

function clampCost(addend: number): number {
  return Math.min(addend, TOKENS_MAX)
}

function parseOverride(
  { limit }: RlsDescriptor,
  position: number,
  problems: InputProblem[],
): LimitOverride | null {
  if (limit === null) return null
  const unit = OVERRIDE_UNITS.find((known) => known === limit.unit)
  if (unit !== undefined) return { requestsPerUnit: limit.requests_per_unit, unit }
  problems.push({
    field: `descriptors[${position}].limit.unit`,
    message: `is ${limit.unit}, which is no unit`,
    fix: `send one of ${OVERRIDE_UNITS.join(', ')}`,
  })
  return null
}
