/** What one region did in a span of a scenario, judged by the answers alone. */
import type { CheckRecord } from '../../services/cli/demo/check-record.ts'
import { clairvoyant } from '../../services/cli/demo/clairvoyant.ts'
import type { Collector } from '../../services/cli/demo/collector.ts'
import { BURST, CAPACITY } from './support.ts'

export interface RegionSpan {
  /** Its place in REGIONS. */
  readonly region: number
  /** Its own part of the limit, 0..1. */
  readonly part: number
  readonly fromMs: number
  readonly toMs: number
}

/** Admissions a second. */
export function admittedPerSecond(collector: Collector, span: RegionSpan): number {
  const admitted = ofSpan(collector.answered, span).filter(isAdmitted)
  return (1_000 * admitted.length) / (span.toMs - span.fromMs)
}

/**
 * How much of its own part of the limit the region admitted, 0..1 and some more for what it borrowed: its admissions as a
 * part of what a limiter of that part alone would have admitted of the same checks. Those without an
 * answer count as denied. So a load that stood still for a while, on a machine that was busy, is no fault of the region.
 * When each check was decided is taken in its favour.
 */
export function baseAdmitted(collector: Collector, span: RegionSpan, scale = 1): number {
  const rule = {
    algorithm: 'token_bucket',
    capacity: scale * span.part * CAPACITY,
    windowMs: 1_000,
    burst: scale * span.part * BURST,
  } as const
  const own = collector.checks.filter(({ region }) => region === span.region)
  const limits = [{ name: 'base', rule, counterOf: () => '' }]
  const admissible = (['sentMs', 'receivedMs'] as const).map((decidedAt) => {
    const verdicts = clairvoyant(own, limits, { decidedAt, originWallMs: 0 })
    return ofSpan(own, span).filter((check) => verdicts.get(check)).length
  })
  return ofSpan(own, span).filter(isAdmitted).length / Math.max(1, Math.min(...admissible))
}

function ofSpan(checks: readonly CheckRecord[], span: RegionSpan): readonly CheckRecord[] {
  return checks.filter(
    ({ region, sentMs }) => region === span.region && sentMs >= span.fromMs && sentMs < span.toMs,
  )
}

function isAdmitted({ outcome }: CheckRecord): boolean {
  return outcome === 'admitted'
}
