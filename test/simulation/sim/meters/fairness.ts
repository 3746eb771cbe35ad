import type { Series } from './series.ts'

/** Max-min fair parts of `total` for those who want `wants`, by weight. */
export function fairParts(
  wants: readonly number[],
  weights: readonly number[],
  total: number,
): readonly number[] {
  const parts = wants.map(() => 0)
  const open = new Set(wants.map((_, index) => index).filter((index) => (wants[index] ?? 0) > 0))
  let left = total
  while (open.size > 0 && left > 1e-9) {
    const weight = [...open].reduce((sum, index) => sum + weightAt(weights, index), 0)
    const level = left / weight
    const sated = [...open].filter(
      (index) => (wants[index] ?? 0) <= level * weightAt(weights, index),
    )
    for (const index of sated.length > 0 ? sated : open) {
      const part = Math.min(wants[index] ?? 0, level * weightAt(weights, index))
      parts[index] = part
      left -= part
      open.delete(index)
    }
  }
  return parts
}

/** A region without a base part still has a claim, as in the allocator. */
function weightAt(weights: readonly number[], index: number): number {
  return Math.max(weights[index] ?? 0, 0.01)
}

/** Jain's index: 1 when all are equal, 1/n when one has everything. */
export function jain(values: readonly number[]): number {
  const sum = values.reduce((total, value) => total + value, 0)
  const squares = values.reduce((total, value) => total + value * value, 0)
  return squares === 0 ? 1 : (sum * sum) / (values.length * squares)
}

/**
 * Jain's index of what each region was admitted against its max-min fair part, taken second by second.
 *
 * `capacities` is the limit's tokens in each second. Regions without demand do not count.
 */
export function jainOfRegions(
  offered: Series,
  admitted: Series,
  span: { readonly fromMs: number; readonly toMs: number },
  fair: { readonly weights: readonly number[]; readonly tokensPerSecond: number },
): number {
  const spanMs = Math.max(FAIR_SPAN_MS, offered.binMs)
  const fairs = fair.weights.map(() => 0)
  for (let fromMs = span.fromMs; fromMs < span.toMs; fromMs += spanMs) {
    const toMs = Math.min(span.toMs, fromMs + spanMs)
    const wants = fair.weights.map((_, region) => offered.sumOf(region, fromMs, toMs))
    const total = (fair.tokensPerSecond * (toMs - fromMs)) / 1_000
    fairParts(wants, fair.weights, total).forEach((part, region) => {
      fairs[region] = (fairs[region] ?? 0) + part
    })
  }
  const ratios = fairs.flatMap((part, region) => {
    return part < 1 ? [] : [admitted.sumOf(region, span.fromMs, span.toMs) / part]
  })
  return jain(ratios)
}

const FAIR_SPAN_MS = 1_000
