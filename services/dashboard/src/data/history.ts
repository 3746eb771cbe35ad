import type { AuditEntryReply } from '../../../../shared/protocol/admin-replies.ts'
import type { UsageHistoryReply } from '../../../../shared/protocol/reading-replies.ts'

export const RESOLUTIONS = ['second', 'minute', 'hour'] as const

export type Resolution = (typeof RESOLUTIONS)[number]

export const BUCKET_MS = { second: 1_000, minute: 60_000, hour: 3_600_000 } as const

/** Buckets that are drawn, whatever was answered. */
const BUCKETS_MAX = 1_000

/** Of a minute or an hour that has just begun nothing is said yet. */
const ELAPSED_MS_MIN = 5_000

/** A region that was heard longer ago holds nobody up. */
const HEARD_WITHIN_MS = 3_500

export interface Bucket {
  readonly atMs: number
  /** Null where nothing was used. */
  readonly item: UsageHistoryReply['items'][number] | null
  /** How much of it has passed and was told of; 0 where it is too early to say anything. */
  readonly elapsedMs: number
}

/** Every bucket of the stretch that was asked for, those with nothing in them too, so that a line falls to zero. */
export function filledHistory(history: UsageHistoryReply | null): readonly Bucket[] {
  if (history === null) return []
  const stepMs = BUCKET_MS[history.resolution]
  const items = new Map(history.items.map((item) => [Date.parse(item.startsAt), item]))
  const [fromMs, toMs] = [Date.parse(history.from), Date.parse(history.to)]
  const count = Math.min(BUCKETS_MAX, Math.round((toMs - fromMs) / stepMs))
  const toldMs = toldUntilMs(history)
  return Array.from({ length: count }, (_, i) => {
    const atMs = fromMs + i * stepMs
    const elapsedMs = Math.min(stepMs, toldMs - atMs)
    const isTold = elapsedMs >= Math.min(stepMs, ELAPSED_MS_MIN)
    return { atMs, item: items.get(atMs) ?? null, elapsedMs: isTold ? elapsedMs : 0 }
  })
}

/** Tokens a second of a bucket, over as much of it as has passed; null where it is too early to say. */
export function rateOf({ elapsedMs }: Bucket, tokens: number): number | null {
  return elapsedMs === 0 ? null : (1_000 * tokens) / elapsedMs
}

/** Until when every region that is heard has told. */
function toldUntilMs({ at, regions }: UsageHistoryReply): number {
  const timesOf = (of: UsageHistoryReply['regions']): readonly number[] =>
    of.flatMap(({ asOf }) => (asOf === null ? [] : [Date.parse(asOf)]))
  const heard = regions.filter(({ ageMs }) => ageMs !== null && ageMs <= HEARD_WITHIN_MS)
  if (heard.length > 0) return Math.min(Date.parse(at), ...timesOf(heard))
  return Math.max(0, ...timesOf(regions))
}

/** The stretch that an address holds; null where it is live. */
export function spanOf(
  query: URLSearchParams,
): { readonly from: string; readonly to: string } | null {
  const [from, to] = [query.get('from'), query.get('to')]
  if (from === null || to === null) return null
  return Number.isNaN(Date.parse(from)) || Number.isNaN(Date.parse(to)) ? null : { from, to }
}

/** Changes that one page of the log holds; more could not be told apart on an axis either. */
const MARKS_MAX = 100

/**
 * Where the changes of a policy are that are to be marked: those of the stretch that is held, however many came since,
 * and of a live view the newest.
 */
export function changesPath(
  domain: string,
  policy: string,
  held: ReturnType<typeof spanOf>,
): string {
  const query = new URLSearchParams({
    domain,
    objectKind: 'policy',
    objectId: `${domain}/${policy}`,
    limit: String(MARKS_MAX),
    ...(held !== null && { since: held.from, until: held.to }),
  })
  return `/v1/audit?${query}`
}

/** Since when all changes are marked; null: in all of the stretch that is shown. */
export function markedSince(
  log: { readonly items: readonly { readonly at: string }[]; readonly next: string | null } | null,
  history: { readonly from: string } | null,
): string | null {
  const oldest = log?.items.at(-1)?.at
  if (log === null || log.next === null || oldest === undefined || history === null) return null
  return Date.parse(oldest) > Date.parse(history.from) ? oldest : null
}

/** Changes of a policy as marks on an axis of time. */
export function marksOf(
  items: readonly Pick<AuditEntryReply, 'at' | 'revision'>[],
): readonly { readonly atS: number; readonly name: string; readonly revision: number }[] {
  return items.flatMap(({ at, revision }) =>
    revision === null ? [] : [{ atS: Date.parse(at) / 1_000, name: `r${revision}`, revision }],
  )
}
