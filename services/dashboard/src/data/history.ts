import type { AuditEntryReply } from '../../../../shared/protocol/admin-replies.ts'
import type { UsageHistoryReply } from '../../../../shared/protocol/reading-replies.ts'

export const RESOLUTIONS = ['second', 'minute', 'hour'] as const

export type Resolution = (typeof RESOLUTIONS)[number]

export const BUCKET_MS = { second: 1_000, minute: 60_000, hour: 3_600_000 } as const

/** Buckets that are drawn, whatever was answered. */
const BUCKETS_MAX = 1_000

export interface Bucket {
  readonly atMs: number
  /** Null where nothing was used. */
  readonly item: UsageHistoryReply['items'][number] | null
}

/** Every bucket of the stretch that was asked for, those with nothing in them too, so that a line falls to zero. */
export function filledHistory(history: UsageHistoryReply | null): readonly Bucket[] {
  if (history === null) return []
  const stepMs = BUCKET_MS[history.resolution]
  const items = new Map(history.items.map((item) => [Date.parse(item.startsAt), item]))
  const [fromMs, toMs] = [Date.parse(history.from), Date.parse(history.to)]
  const count = Math.min(BUCKETS_MAX, Math.round((toMs - fromMs) / stepMs))
  return Array.from({ length: count }, (_, i) => {
    const atMs = fromMs + i * stepMs
    return { atMs, item: items.get(atMs) ?? null }
  })
}

/** The stretch that an address holds; null where it is live. */
export function spanOf(
  query: URLSearchParams,
): { readonly from: string; readonly to: string } | null {
  const [from, to] = [query.get('from'), query.get('to')]
  if (from === null || to === null) return null
  return Number.isNaN(Date.parse(from)) || Number.isNaN(Date.parse(to)) ? null : { from, to }
}

/** Changes of a policy as marks on an axis of time. */
export function marksOf(
  items: readonly Pick<AuditEntryReply, 'at' | 'revision'>[],
): readonly { readonly atS: number; readonly name: string; readonly revision: number }[] {
  return items.flatMap(({ at, revision }) =>
    revision === null ? [] : [{ atS: Date.parse(at) / 1_000, name: `r${revision}`, revision }],
  )
}
