/**
 * The live stream: once a second what changed is worked out once, and sent to every client that may see it.
 *
 * Bounded: at most CLIENTS_MAX clients, a queue of bounded size for each, the last EVENTS_KEPT events for those that
 * come back. Nothing is worked out while nobody listens. Reads memory alone, so it goes on without Postgres and NATS.
 */
import { randomUUID } from 'node:crypto'
import { QuotaError } from '../../../shared/errors.ts'
import type { StreamEventName, StreamEvents } from '../../../shared/protocol/stream-events.ts'
import type { RolloutView } from '../rollout-view.ts'
import { regionsFor, rolloutFor } from '../views/limited.ts'
import type { EndReason, StreamClient, StreamFilter } from './stream-client.ts'
import {
  freshness,
  hotShares,
  type LimitShares,
  recentUsage,
  regionsEvent,
  type StreamSources,
} from './stream-events.ts'

export const STREAM_INTERVAL_MS = 1_000

/** Dashboards and watching terminals of a whole company; each costs some kilobytes a second. */
export const CLIENTS_MAX = 200

/**
 * Of those, one token's. A fifth: a team that shares a token has room, and one that leaks its connections, or opens
 * them on purpose, leaves four fifths to the others.
 */
export const CLIENTS_OF_ONE_MAX = CLIENTS_MAX / 5

/** A minute of events: who was away for longer is better served by a snapshot. */
const EVENTS_KEPT = 240

/** How often it is asked whether callers may still read. */
const RECHECK_INTERVAL_MS = 2_000

/** While nobody can say whether a token still works, streams go on for this long. */
const UNCONFIRMED_MAX_MS = 60_000

/** How soon a client comes back by itself. */
const RETRY_MS = 2_000

type Told = {
  [Name in StreamEventName]: { readonly name: Name; readonly data: StreamEvents[Name] }
}
/** An event of any name, with the data that belongs to it. */
type UnsentEvent = Told[StreamEventName]
type SentEvent = UnsentEvent & { readonly id: number }

export interface StreamHubOptions extends StreamSources {
  readonly rollouts: RolloutView
  readonly wallMs: () => number
  /** Told of each stream that admin ended. */
  readonly onEnd?: (reason: EndReason) => void
  /** Told of each stream that was not opened: one `token` has as many as it may, or `all` together have. */
  readonly onRefusal?: (reason: 'token' | 'all') => void
}

export class StreamHub {
  readonly #options: StreamHubOptions
  readonly #clients = new Set<StreamClient>()
  /** Ids of another admin, or from before a time when nobody listened, are not continued. */
  #generation = randomUUID().slice(0, 8)
  #nextId = 1
  #kept: SentEvent[] = []
  #shares: ReadonlyMap<number, string> = new Map()
  #rollout = ''
  #revision = 0
  #checkedMs = Number.NEGATIVE_INFINITY

  constructor(options: StreamHubOptions) {
    this.#options = options
  }

  get clients(): number {
    return this.#clients.size
  }

  /** Throws QUOTA_TOO_MANY_REQUESTS when as many streams of this actor are open as may be, QUOTA_OVERLOADED when of all. */
  requireRoom(actor: string): void {
    const own = [...this.#clients].filter((client) => client.actor === actor).length
    if (own >= CLIENTS_OF_ONE_MAX) {
      this.#options.onRefusal?.('token')
      throw new QuotaError(
        'QUOTA_TOO_MANY_REQUESTS',
        `${actor} has ${own} streams open, as many as one token may: close some, or use a token for each team or program`,
      )
    }
    if (this.#clients.size < CLIENTS_MAX) return
    this.#options.onRefusal?.('all')
    throw new QuotaError(
      'QUOTA_OVERLOADED',
      `${CLIENTS_MAX} clients have a stream open, as many as this admin serves: connect to another, or close some`,
    )
  }

  /** Begins to tell a client, with what it missed where that is known, else with a snapshot. */
  open(client: StreamClient, lastEventId: string | null): void {
    const nowMs = this.#options.wallMs()
    if (this.#clients.size === 0) this.#begin(nowMs)
    this.#clients.add(client)
    const missed = this.#missedSince(lastEventId)
    const first =
      missed === null
        ? [{ id: this.#nextId - 1, name: 'snapshot', data: this.#snapshot(nowMs) } as const]
        : missed
    client.send(`retry: ${RETRY_MS}\n\n`, nowMs)
    for (const event of first) client.send(this.#textOf(event, client.filter), nowMs)
  }

  leave(client: StreamClient): void {
    client.closed()
    this.#clients.delete(client)
  }

  /** Ends every stream, so that the server can stop. */
  close(): void {
    for (const client of this.#clients) client.end('stopping')
    this.#clients.clear()
  }

  /** Tells what changed since the last time, and drops who is too slow or may not read any more. */
  async tickOnce(): Promise<void> {
    if (this.#clients.size === 0) return
    const nowMs = this.#options.wallMs()
    const events = this.#changes(nowMs).map((event) => ({ ...event, id: this.#nextId++ }))
    this.#kept = [...this.#kept, ...events].slice(-EVENTS_KEPT)
    const texts = new Map<string, string>()
    for (const client of this.#clients) {
      const key = JSON.stringify(client.filter)
      const text = texts.get(key) ?? events.map((one) => this.#textOf(one, client.filter)).join('')
      texts.set(key, text)
      if (text !== '' && !client.send(text, nowMs)) this.#options.onEnd?.('slow')
      client.keepAlive(nowMs)
      if (!client.isOpen) this.#clients.delete(client)
    }
    if (nowMs - this.#checkedMs < RECHECK_INTERVAL_MS) return
    this.#checkedMs = nowMs
    await Promise.all([...this.#clients].map((client) => this.#recheck(client, nowMs)))
  }

  async #recheck(client: StreamClient, nowMs: number): Promise<void> {
    const mayStay = await client.mayStay().catch(() => null)
    if (mayStay === true) client.confirmedMs = nowMs
    const isDoubtful = mayStay === null && nowMs - client.confirmedMs > UNCONFIRMED_MAX_MS
    if (mayStay !== false && !isDoubtful) return
    client.end('token')
    this.#clients.delete(client)
    this.#options.onEnd?.('token')
  }

  /** Nobody listened before, so nothing is known of what changed. */
  #begin(nowMs: number): void {
    this.#generation = randomUUID().slice(0, 8)
    this.#kept = []
    this.#changes(nowMs)
  }

  /** Null when it is not known what was missed. */
  #missedSince(lastEventId: string | null): readonly SentEvent[] | null {
    const [generation, text = ''] = lastEventId?.split('-') ?? []
    const id = Number(text)
    const oldest = this.#kept[0]?.id ?? this.#nextId
    const isKnown = generation === this.#generation && /^\d{1,15}$/.test(text)
    if (!isKnown || id < oldest - 1 || id >= this.#nextId) return null
    return this.#kept.filter((event) => event.id > id)
  }

  #snapshot(nowMs: number): StreamEvents['snapshot'] {
    const at = new Date(nowMs).toISOString()
    const { cache, rollouts } = this.#options
    const { revision, members } = cache
    return {
      at,
      revision,
      regions: regionsEvent(this.#options, nowMs),
      rollout: rollouts.rolloutOf({ revision, members, nowMs }),
      shares: { at, limits: [...hotShares(this.#options, nowMs)] },
      usage: this.#usage(at, nowMs),
    }
  }

  #usage(at: string, nowMs: number): StreamEvents['usage'] {
    return {
      at,
      regions: freshness(this.#options, nowMs),
      limits: recentUsage(this.#options, nowMs),
    }
  }

  #changes(nowMs: number): readonly UnsentEvent[] {
    const at = new Date(nowMs).toISOString()
    const { revision, members } = this.#options.cache
    const changes: UnsentEvent[] = []
    if (revision !== this.#revision) changes.push({ name: 'revisions', data: { at, revision } })
    this.#revision = revision
    const rollout = this.#options.rollouts.rolloutOf({ revision, members, nowMs })
    const told = JSON.stringify({ ...rollout, at: '' }, withoutAges)
    if (told !== this.#rollout) changes.push({ name: 'rollouts', data: rollout })
    this.#rollout = told
    changes.push({ name: 'regions', data: regionsEvent(this.#options, nowMs) })
    const shares = this.#changedShares(nowMs)
    if (shares.length > 0) changes.push({ name: 'shares', data: { at, limits: [...shares] } })
    const usage = this.#usage(at, nowMs)
    if (usage.limits.length > 0) changes.push({ name: 'usage', data: usage })
    return changes
  }

  /** Limits whose shares read otherwise than they were told last, those that ceased to be hot included. */
  #changedShares(nowMs: number): readonly LimitShares[] {
    const limits = hotShares(this.#options, nowMs)
    const before = this.#shares
    const told = new Map(limits.map((limit) => [limit.limitId, JSON.stringify(limit, withoutAges)]))
    this.#shares = told
    const changed = limits.filter(({ limitId }) => told.get(limitId) !== before.get(limitId))
    const cooled = [...before].flatMap(([limitId, text]): LimitShares[] =>
      told.has(limitId) ? [] : [{ ...(JSON.parse(text) as LimitShares), keys: [], keysLeftOut: 0 }],
    )
    return [...changed, ...cooled]
  }

  /** What regions say of all domains together, as a caller that is limited to some is told it. */
  #seenBy({ domains }: StreamFilter, { name, data }: SentEvent): object {
    const { cache, live } = this.#options
    const limits = { domains, policies: cache.policies, live }
    const regionsOf = (event: StreamEvents['regions']) => ({
      ...event,
      regions: regionsFor(limits, event.regions),
    })
    switch (name) {
      case 'regions':
        return regionsOf(data)
      case 'rollouts':
        return rolloutFor(limits, data)
      case 'snapshot':
        return {
          ...data,
          regions: regionsOf(data.regions),
          rollout: rolloutFor(limits, data.rollout),
        }
      default:
        return data
    }
  }

  #textOf(event: SentEvent, filter: StreamFilter): string {
    const shown = filtered(this.#seenBy(filter, event), filter)
    const { id, name } = event
    return `id: ${this.#generation}-${id}\nevent: ${name}\ndata: ${JSON.stringify(shown)}\n\n`
  }
}

/** Ages grow all the time; that is no change. */
function withoutAges(name: string, value: unknown): unknown {
  return name === 'ageMs' || name === 'heardAgeMs' ? undefined : value
}

/** Leaves only limits that the client asked for, and may see; what names no domain is for everyone. */
function filtered(data: object, { domain, policy }: Omit<StreamFilter, 'domains'>): object {
  if (domain === null && policy === null) return data
  return Object.fromEntries(
    Object.entries(data).map(([name, part]: [string, unknown]) => {
      if (name === 'limits' && Array.isArray(part)) return [name, part.filter(isShown)]
      const isNested = typeof part === 'object' && part !== null && !Array.isArray(part)
      return [name, isNested ? filtered(part, { domain, policy }) : part]
    }),
  )
  function isShown(limit: { domain?: unknown; policy?: unknown }): boolean {
    const isDomain = domain === null || limit.domain === domain
    return isDomain && (policy === null || limit.policy === policy)
  }
}
