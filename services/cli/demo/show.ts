import { setTimeout as delay } from 'node:timers/promises'
import type { PolicyInput } from '../../../shared/protocol/policy.ts'
import type { AdminClient } from '../admin-client.ts'
import { readSharePercents } from '../shares-client.ts'
import type { LiveCounts } from './live-counts.ts'
import type { LiveScreen } from './live-screen.ts'

export interface ShowOptions {
  readonly screen: LiveScreen
  readonly client: AdminClient
  /** Whose first limit's shares are shown. */
  readonly policy: PolicyInput
  readonly regions: readonly string[]
  readonly counts: LiveCounts
  readonly originMs: number
  readonly endMs: number
  readonly signal: AbortSignal
  readonly noteAt: (nowMs: number) => string
}

/** Draws a frame at each whole second of the run; resolves after the last. */
export async function showEachSecond(options: ShowOptions): Promise<void> {
  for (let second = 1; second * 1_000 <= options.endMs; second++) {
    const waitMs = options.originMs + second * 1_000 - performance.now()
    if (waitMs > 0) await delay(waitMs)
    if (options.signal.aborted) return
    const counts = options.counts.take()
    const shares = await readSharePercents(options.client, options.policy)
    options.screen.draw({
      second,
      limit: options.policy.limits[0]?.capacity ?? 0,
      note: options.noteAt(second * 1_000 - 1),
      rows: options.regions.map((region, i) => ({
        region,
        sharePercent: shares.get(region) ?? null,
        demand: counts[i]?.offered ?? 0,
        admitted: counts[i]?.admitted ?? 0,
        denied: counts[i]?.denied ?? 0,
      })),
    })
  }
}
