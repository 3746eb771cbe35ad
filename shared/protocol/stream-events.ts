/** What the live stream of admin tells. Each event's data is one JSON object. */

import type { SharesReply } from './admin-replies.ts'
import type { LagsReply, UsageHistoryReply } from './reading-replies.ts'
import type { RolloutReply } from './rollout-reply.ts'

type HistoryItem = UsageHistoryReply['items'][number]

/** The latest seconds of one limit; a second that comes again replaces what was told of it. */
export interface StreamLimitUsage {
  readonly domain: string
  readonly policy: string
  readonly limit: string
  readonly limitId: number
  readonly seconds: readonly Pick<HistoryItem, 'startsAt' | 'isRunning' | 'total' | 'regions'>[]
}

/** Of each event its data. `snapshot` comes first unless the stream was resumed without a gap. */
export interface StreamEvents {
  readonly snapshot: {
    readonly at: string
    readonly revision: number
    readonly regions: StreamEvents['regions']
    readonly rollout: RolloutReply
    readonly shares: StreamEvents['shares']
    readonly usage: StreamEvents['usage']
  }
  readonly regions: LagsReply & { readonly pairsLeftOut: number }
  /** Limits whose shares, loans or demand changed. One without keys has none that are hot any more. */
  readonly shares: { readonly at: string; readonly limits: SharesReply['limits'] }
  readonly usage: {
    readonly at: string
    readonly regions: UsageHistoryReply['regions']
    readonly limits: readonly StreamLimitUsage[]
  }
  readonly revisions: { readonly at: string; readonly revision: number }
  readonly rollouts: RolloutReply
  /** The last one: why admin ended the stream. */
  readonly end: { readonly reason: 'slow' | 'token' | 'stopping'; readonly detail: string }
}

export type StreamEventName = keyof StreamEvents
