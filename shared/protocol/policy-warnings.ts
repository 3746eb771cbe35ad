/**
 * What an operator should know of a valid policy before it surprises a caller: parts of a limit too small to admit
 * anything, promises narrower than they sound. Pure; the same in admin and in tests.
 */
import { splitBase } from '../core/base-split.ts'
import { partTokens } from '../core/counter-parts.ts'
import { isHeldInMemory } from '../core/enforced.ts'
import { hasBurst, type RegionId } from '../core/policy.ts'
import { shareBurst, shareTokens } from '../core/units.ts'
import type { InputProblem } from '../errors.ts'
import { type LimitDocument, type PolicyDocument, weightSteps } from './policy.ts'

/** Shorter windows than this are over before regions have heard enough of each other (`eventual`). */
const EVENTUAL_WINDOW_MS_MIN = 60_000

export interface PolicyReview {
  readonly warnings: readonly InputProblem[]
  /** Why the policy is not accepted as it is; each says what would make it acceptable. */
  readonly refusals: readonly InputProblem[]
}

/** `members`: the regions of the plane, whether the policy names them or not. */
export function reviewPolicy(document: PolicyDocument, members: readonly RegionId[]): PolicyReview {
  const warnings: InputProblem[] = []
  const refusals: InputProblem[] = []
  warnings.push(...localWarnings(document))
  for (const [index, limit] of document.limits.entries()) {
    const field = `limits[${index}]`
    warnings.push(...promiseWarnings(document, limit, field))
    if (document.mode === 'eventual') continue
    warnings.push(...emptyParts(limit, members, field))
    const { warning, isRefusable } = smallParts(limit, field)
    if (warning === null) continue
    const isRefused = isRefusable && !document.acceptSmallLimits
    if (isRefused) refusals.push(warning)
    else warnings.push(warning)
  }
  return { warnings, refusals }
}

/** `local` sounds as if it went on with every limit; a check with one that memory cannot hold is denied whole. */
function localWarnings({ onStoreFailure, limits }: PolicyDocument): readonly InputProblem[] {
  if (onStoreFailure !== 'local') return []
  const denied = limits.filter(
    ({ algorithm, windowMs = 0, calendar = null }) =>
      !isHeldInMemory({ algorithm, windowMs, calendar }),
  )
  if (denied.length === 0) return []
  const names = listed(denied.map(({ name }) => name))
  const rest = denied.length < limits.length
  return [
    {
      field: 'onStoreFailure',
      message: `"local" denies every check of this policy while Redis is away, as memory cannot hold ${names}: windows of a calendar or of a day and more, and concurrency`,
      fix: `use "allow" or "deny"${rest ? `, or move ${names} to a policy of its own` : ''}`,
    },
  ]
}

function promiseWarnings(
  { mode }: PolicyDocument,
  limit: LimitDocument,
  field: string,
): readonly InputProblem[] {
  const found: InputProblem[] = []
  if (limit.algorithm === 'sliding_counter') {
    found.push({
      field: `${field}.algorithm`,
      message:
        'holds its own estimate of a sliding window, and a caller who times it can spend up to twice the capacity in a true one',
      fix: 'use "sliding_window", whose true windows hold, or "sliding_log", which is exact',
    })
  }
  const { windowMs } = limit
  if (mode === 'eventual' && windowMs !== undefined && windowMs < EVENTUAL_WINDOW_MS_MIN) {
    found.push({
      field: `${field}.windowMs`,
      message:
        'is over before the regions have heard of each other, so that each may admit close to the whole limit',
      fix: `use a window of at least ${EVENTUAL_WINDOW_MS_MIN} ms, or mode "strict"`,
    })
  }
  return found
}

/** Regions that have no part of the limit at all: they admit only what they borrow. */
function emptyParts(
  limit: LimitDocument,
  members: readonly RegionId[],
  field: string,
): readonly InputProblem[] {
  if (limit.capacity === 0) return []
  const regions = new Set([...members, ...Object.keys(limit.split)])
  const empty = [...regions].filter((region) => (limit.split[region] ?? 0) === 0).sort()
  if (empty.length === 0) return []
  return [
    {
      field: `${field}.split`,
      message: `gives nothing to ${listed(empty)}: a first request there is denied until tokens are borrowed, and all are while no other region can be reached`,
      fix: 'give each region that receives requests at least a small weight',
    },
  ]
}

function smallParts(
  limit: LimitDocument,
  field: string,
): { readonly warning: InputProblem | null; readonly isRefusable: boolean } {
  const none = { warning: null, isRefusable: false }
  if (limit.capacity === 0) return none
  // Each counter of a key has its own part of every region's part.
  const capacity = partTokens(limit.capacity, limit.shards)
  const burst = hasBurst(limit.algorithm)
    ? partTokens(limit.burst ?? limit.capacity, limit.shards)
    : capacity
  const base = splitBase(weightSteps(limit.split), limit.capacity)
  const weighted = Object.entries(limit.split).filter(([, weight]) => weight > 0)
  const regions = weighted.map(([region]) => region)
  const part = (region: RegionId): number =>
    hasBurst(limit.algorithm)
      ? shareBurst(burst, base[region] ?? 0)
      : shareTokens(capacity, base[region] ?? 0)
  const small = regions.filter((region) => part(region) < 1).sort()
  if (small.length === 0) return none
  const isRefusable = burst < regions.length
  const number = burst === capacity ? 'capacity' : 'burst'
  const fixes = [
    'use mode "eventual"',
    `raise the ${number}${isRefusable ? ` to at least ${regions.length * limit.shards}` : ''}`,
    ...(isRefusable ? ['accept it with "acceptSmallLimits": true'] : []),
  ]
  const warning = {
    field: `${field}.${number}`,
    message: `${burst} ${burst === 1 ? 'token' : 'tokens'}${limit.shards > 1 ? ` in each of ${limit.shards} shards` : ''} ${burst === 1 ? 'leaves' : 'leave'} less than one for ${listed(small)}: a first request there is denied, and passes about one round trip between regions later if another region has a token to lend`,
    fix: `${fixes.slice(0, -1).join(', ')}, or ${fixes.at(-1)}`,
  }
  return { warning, isRefusable }
}

/** The first few by name; a plane may have many regions, and a policy many limits. */
function listed(all: readonly string[]): string {
  const shown = all.slice(0, 5).join(', ')
  return all.length > 5 ? `${shown} and ${all.length - 5} more` : shown
}
