/** Shortest window that usage is counted over: shorter ones would be overwritten before they are collected. */
export const USAGE_WINDOW_MS_MIN = 1_000

/** Length of the windows that a limit's usage is counted in: its own, or a second where its own is shorter. */
export function usageWindowMs(windowMs: number): number {
  return Math.max(windowMs, USAGE_WINDOW_MS_MIN)
}
