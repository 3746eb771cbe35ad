/** What the page knows of the plane at present: the newest word on each region and limit, and nothing older. */
import type { SharesReply } from '../../../../shared/protocol/admin-replies.ts'
import type { LagsReply } from '../../../../shared/protocol/reading-replies.ts'
import type { RolloutReply } from '../../../../shared/protocol/rollout-reply.ts'
import type { StreamEvents, StreamLimitUsage } from '../../../../shared/protocol/stream-events.ts'

export type LimitShares = SharesReply['limits'][number]
export type KeyShares = LimitShares['keys'][number]

export interface Rate {
  readonly admitted: number
  readonly denied: number
}

export interface LiveState {
  readonly regions: LagsReply | null
  /** By limit; those with hot keys alone, which admin bounds. */
  readonly shares: ReadonlyMap<number, LimitShares>
  /** Of the newest second that has ended, by region. */
  readonly rates: ReadonlyMap<string, Rate>
  readonly ratesAtMs: number
  readonly revision: number | null
  readonly rollout: RolloutReply | null
  /** `performance.now()` of the newest word; null before the first. */
  readonly atMs: number | null
  readonly problem: string | null
  /** How it comes here. */
  readonly by: 'stream' | 'asking' | null
}

export const NOTHING_LIVE: LiveState = {
  regions: null,
  shares: new Map(),
  rates: new Map(),
  ratesAtMs: 0,
  revision: null,
  rollout: null,
  atMs: null,
  problem: null,
  by: null,
}

/** Usage is told while there is any: after this much silence there is none. */
const RATES_KEPT_MS = 3_000

/** The state after an event of the stream; the same state for an event that is not known here. */
export function withEvent(state: LiveState, name: string, data: unknown, nowMs: number): LiveState {
  const heard: LiveState = { ...state, atMs: nowMs, problem: null, by: 'stream' }
  switch (name) {
    case 'snapshot': {
      const { regions, revision, rollout, shares, usage } = data as StreamEvents['snapshot']
      const limits = new Map(shares.limits.map((limit) => [limit.limitId, limit]))
      const rates = ratesOf(usage.limits)
      return { ...heard, regions, revision, rollout, shares: limits, rates, ratesAtMs: nowMs }
    }
    case 'regions': {
      const isQuiet = nowMs - state.ratesAtMs > RATES_KEPT_MS
      const rates: LiveState['rates'] = isQuiet ? new Map() : state.rates
      return { ...heard, regions: data as StreamEvents['regions'], rates }
    }
    case 'shares':
      return { ...heard, shares: withShares(state.shares, data as StreamEvents['shares']) }
    case 'usage': {
      const { limits } = data as StreamEvents['usage']
      return { ...heard, rates: ratesOf(limits), ratesAtMs: nowMs }
    }
    case 'revisions':
      return { ...heard, revision: (data as StreamEvents['revisions']).revision }
    case 'rollouts':
      return { ...heard, rollout: data as RolloutReply }
    default:
      return state
  }
}

function withShares(
  before: LiveState['shares'],
  { limits }: StreamEvents['shares'],
): LiveState['shares'] {
  const after = new Map(before)
  for (const limit of limits) {
    // One without keys has none that are hot any more.
    if (limit.keys.length === 0) after.delete(limit.limitId)
    else after.set(limit.limitId, limit)
  }
  return after
}

/** Tokens a second by region: of each limit the newest second that every region has told of. */
export function ratesOf(limits: readonly StreamLimitUsage[]): ReadonlyMap<string, Rate> {
  const rates = new Map<string, Rate>()
  for (const { seconds } of limits) {
    const ended = seconds.filter(({ isRunning }) => !isRunning).at(-1) ?? seconds.at(-2)
    for (const { region, admitted, denied } of ended?.regions ?? []) {
      const rate = rates.get(region) ?? { admitted: 0, denied: 0 }
      rates.set(region, { admitted: rate.admitted + admitted, denied: rate.denied + denied })
    }
  }
  return rates
}
