/**
 * Answers Envoy's rate limit service out of the same decisions as `POST /v1/check`, over gRPC and as JSON.
 *
 * As the reference server does: one status for each descriptor in order, over the limit as a whole when any is; what
 * no policy governs is OK without a limit, and what a shadow would deny is OK with its limit. Other than there a denial by one descriptor spends nothing of the others.
 */
import { bindingOf, resetSeconds, waitSeconds } from '../../shared/core/binding.ts'
import {
  type HeaderChoice,
  writeRateLimitHeaders,
} from '../../shared/protocol/rate-limit-headers.ts'
import {
  type RlsHeader,
  type RlsRequest,
  type RlsResponse,
  type RlsStatus,
  UINT32_MAX,
} from '../../shared/protocol/rls-messages.ts'
import { parseRlsRequest, type RlsAsk } from '../../shared/protocol/rls-request.ts'
import type { Clock } from '../../shared/runtime/clock.ts'
import type { CallerOptions } from './caller-access.ts'
import type { Verdict } from './conclude.ts'
import { nameAsk } from './named-ask.ts'
import type { Ask } from './parts.ts'
import { type CheckRunner, runCheck } from './run-check.ts'
import type { Decided } from './slot-group.ts'

export interface RlsOptions extends CheckRunner, CallerOptions {
  readonly clock: Clock
  readonly headers: HeaderChoice
}

/** The response to `request`. Throws QUOTA_INVALID_INPUT, and what `runCheck` throws. */
export async function shouldRateLimit(
  options: RlsOptions,
  request: RlsRequest,
): Promise<RlsResponse> {
  const verdict = await runCheck(options, askOf(parseRlsRequest(request), options.clock))
  return {
    overall_code: verdict.allowed ? 'OK' : 'OVER_LIMIT',
    statuses: request.descriptors.map((_, position) => statusOf(verdict, position)),
    response_headers_to_add: headersOf(verdict, options),
  }
}

/** One descriptor without numbers of its own is a check like any other, and goes the shortest way. */
function askOf({ terms, ...check }: RlsAsk, clock: Clock): Ask {
  const { ask } = nameAsk(check)
  const [only] = terms
  if (only !== undefined && terms.length === 1 && only.override === null) {
    return { ...ask, cost: only.cost }
  }
  const wallMs = clock.wallMs()
  const withTime = terms.map(({ cost, override }) => ({
    cost,
    override: override === null ? null : { ...override, wallMs },
  }))
  return { ...ask, terms: withTime }
}

const UNMATCHED: RlsStatus = {
  code: 'OK',
  current_limit: null,
  limit_remaining: 0,
  duration_until_reset: null,
}

/** As the reference server says it. */
const UNLIMITED: RlsStatus = { ...UNMATCHED, limit_remaining: UINT32_MAX }

function statusOf(verdict: Verdict, position: number): RlsStatus {
  const { decided, watched, unlimited } = verdict
  if (unlimited.includes(position)) return UNLIMITED
  const [only] = decided
  const binding =
    decided.length === 1 && only?.position === position
      ? only
      : bindingOf(decided.filter((one) => one.position === position))
  if (binding !== null) return shownStatus(binding)
  const shadows = watched.filter((one) => one.kind === 'shadow' && one.position === position)
  const shadow = bindingOf(shadows)
  return shadow === null ? UNMATCHED : { ...shownStatus(shadow), code: 'OK' }
}

function shownStatus({ decision, limit }: Decided): RlsStatus {
  const seconds = resetSeconds(decision)
  return {
    code: decision.allowed ? 'OK' : 'OVER_LIMIT',
    current_limit: limit.words.current,
    limit_remaining: Math.min(decision.remaining ?? 0, UINT32_MAX),
    duration_until_reset: seconds === null ? null : { seconds, nanos: 0 },
  }
}

function headersOf(verdict: Verdict, { headers, clock }: RlsOptions): readonly RlsHeader[] {
  const binding: Decided | null = bindingOf(verdict.decided)
  if (binding === null) return []
  const { decision, limit } = binding
  const added: RlsHeader[] = []
  const words = verdict.decided.map((one) => one.limit.words)
  const source = { words, binding: { words: limit.words, decision }, wallMs: clock.wallMs() }
  writeRateLimitHeaders(headers, source, (key, value) => added.push({ key, value }))
  const wait = waitSeconds(decision)
  if (wait !== null) added.push({ key: 'retry-after', value: String(wait) })
  return added
}
