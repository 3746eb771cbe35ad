/** How a limit is held: what its policy's mode and its window make of it. */
import { isLongWindow, STOCK_WINDOW_MS_MIN, type WindowRule } from './stock/stock-limit.ts'
import { TOKENS_MAX } from './units.ts'

export interface ModeRule {
  readonly mode: string
  /** Per cent above the limit that `relaxed` may admit. */
  readonly relaxedPercent?: number | null
}

export interface HeldLimit extends WindowRule {
  readonly algorithm: string
}

/**
 * `share`: each region has a part of it and lends what it can spare. `stock`: tokens are given for good, window by
 * window. `estimate`: each region counts for itself and is told what the others counted.
 */
export type Holding = 'share' | 'stock' | 'estimate'

export function holdingOf(policy: ModeRule, limit: HeldLimit): Holding {
  if (policy.mode === 'eventual') return 'estimate'
  return limit.algorithm === 'fixed_window' && isLongWindow(limit) ? 'stock' : 'share'
}

/**
 * Whether an enforcer's memory can decide of a limit while Redis cannot (`onStoreFailure: local`); what it cannot is
 * denied. A day's tokens may be spent already, a calendar's window is Redis' to name, and what is held can be given
 * back to nobody.
 */
export function isHeldInMemory({ algorithm, windowMs, calendar }: HeldLimit): boolean {
  const isLong = (calendar ?? null) !== null || windowMs >= STOCK_WINDOW_MS_MIN
  return !isLong && algorithm !== 'concurrency'
}

/**
 * Tokens that are divided between the regions of a limit of `tokens`.
 *
 * In `relaxed` mode they are more than the limit by its per cent, rounded down: everything else is as in strict
 * mode, so the strict bound of the larger limit is the relaxed bound of this one, whatever fails.
 */
export function pooledTokens({ mode, relaxedPercent }: ModeRule, tokens: number): number {
  if (mode !== 'relaxed') return tokens
  const percent = relaxedPercent ?? 0
  // In two parts: the product may pass 2^53.
  const hundreds = Math.floor(tokens / 100)
  const extra = hundreds * percent + Math.floor(((tokens - hundreds * 100) * percent) / 100)
  return Math.min(TOKENS_MAX, tokens + extra)
}
