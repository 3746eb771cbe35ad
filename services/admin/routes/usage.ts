import type { FastifyInstance } from 'fastify'
import type { ZodTypeProvider } from 'fastify-type-provider-zod'
import { z } from 'zod'
import { COUNTER_NAME_LENGTH_MAX } from '../../../shared/core/counter-id.ts'
import type { Policy } from '../../../shared/core/policy.ts'
import { QuotaError } from '../../../shared/errors.ts'
import { domainSchema, nameSchema } from '../../../shared/protocol/policy.ts'
import { quoted } from '../../../shared/protocol/policy-fields.ts'
import {
  RESOLUTIONS,
  TOP_BY,
  usageHistoryReplySchema,
  usageTopReplySchema,
} from '../../../shared/protocol/reading-replies.ts'
import { MINUTE_MS, MINUTES_KEPT, SECOND_MS } from '../history/series-book.ts'
import { type HistoryAsk, readUsageHistory, SPANS } from '../usage-reading.ts'
import { agesOf } from '../views/shares.ts'
import { compareTop, usageTopOf } from '../views/usage-top.ts'
import { decimal } from './decimal.ts'
import { mendedBy } from './fixes.ts'
import { decodeCursor, encodeCursor, pageOf, pageQuery } from './paging.ts'
import { type AdminDeps, failures, NO_TIME } from './route-support.ts'

const TOP_SECONDS_DEFAULT = 60
const TOP_SECONDS_MAX = (MINUTES_KEPT * MINUTE_MS) / SECOND_MS

/** Stretches of time on one page: a line of a chart has no more points. */
const BUCKETS_DEFAULT = 300
const BUCKETS_MAX = 1_000

const tags = ['usage']
const key = z.string().min(1).max(COUNTER_NAME_LENGTH_MAX)
const instant = z.iso.datetime({ offset: true, error: NO_TIME })

/** The last that RFC 3339 can write; what a cursor says is written so in the answer. */
const LAST_INSTANT_MS = Date.UTC(9999, 11, 31, 23, 59, 59)

const instantMs = z.number().int().min(0).max(LAST_INSTANT_MS)
const topCursor = z.tuple([instantMs, z.number().int(), z.number().int(), key])
const historyCursor = z.tuple([instantMs, instantMs])

const TOP_FIXES = {
  by: `use ${quoted(TOP_BY)}, or leave it out`,
  search: `give at most ${COUNTER_NAME_LENGTH_MAX} characters, or leave it out`,
  seconds: `give a whole number from 1 to ${TOP_SECONDS_MAX}, or leave it out`,
}

const HISTORY_FIXES = {
  key: 'give a key as /v1/usage/top and /v1/shares name it, or leave it out',
  limitName: 'name a limit of the policy, or leave it out',
  resolution: `use ${quoted(RESOLUTIONS)}, or leave it out`,
  limit: `give a whole number from 1 to ${BUCKETS_MAX}, or leave it out`,
}

/** Usage by key and over time. */
export function usageRoutes(root: FastifyInstance, deps: AdminDeps): void {
  topRoute(root, deps)
  historyRoute(root, deps)
}

function topRoute(root: FastifyInstance, deps: AdminDeps): void {
  const app = root.withTypeProvider<ZodTypeProvider>()
  app.get(
    '/usage/top',
    {
      schema: {
        tags,
        summary: 'Hot keys with most use, denials or unmet demand',
        description:
          'Of keys that are hot, which have a share of their own or were denied. Answered from memory, since this admin started.',
        querystring: mendedBy(
          z.strictObject({
            ...pageQuery,
            by: z.enum(TOP_BY).default('use'),
            domain: domainSchema.optional(),
            policy: nameSchema.optional(),
            region: nameSchema.optional().describe('only what this region counted'),
            search: z
              .string()
              .max(COUNTER_NAME_LENGTH_MAX)
              .optional()
              .describe('only keys that have this in them, in any case'),
            seconds: decimal(1, TOP_SECONDS_MAX)
              .default(TOP_SECONDS_DEFAULT)
              .describe('how far back'),
          }),
          TOP_FIXES,
        ),
        response: { 200: usageTopReplySchema, ...failures },
      },
    },
    async (req) => {
      const { by, region, search, seconds, limit, cursor } = req.query
      const nowMs = deps.wallMs()
      const after = decodeCursor(topCursor, cursor)
      const toMs = after?.[0] ?? nowMs
      const span = { fromMs: toMs - seconds * SECOND_MS, toMs }
      const { live, cache } = deps
      const { members } = cache
      const policies = policiesOf(deps, req.query)
      const all = usageTopOf({ policies, members, live, by, region, search, ...span })
      const [, value = 0, limitId = 0, name = ''] = after ?? []
      const rest = all.findIndex((one) => compareTop(one, { value, limitId, key: name }) > 0)
      const start = after === null ? 0 : rest < 0 ? all.length : rest
      const { items, next } = pageOf(all.slice(start, start + limit + 1), limit, (one) => [
        toMs,
        one.value,
        one.limitId,
        one.key,
      ])
      return {
        at: isoTime(nowMs),
        by,
        from: isoTime(span.fromMs),
        to: isoTime(toMs),
        regions: agesOf({ members, live, nowMs }),
        items: items.map((item, i) => ({ rank: start + i + 1, ...item })),
        keysLeftOut: live.history.keys.turnedAway,
        next,
      }
    },
  )
}

function historyRoute(root: FastifyInstance, deps: AdminDeps): void {
  const app = root.withTypeProvider<ZodTypeProvider>()
  app.get(
    '/usage/history',
    {
      schema: {
        tags,
        summary: 'Usage of a policy, or of one hot key of it, over time',
        description:
          'Seconds of the last 5 minutes and hot keys (seconds and minutes of the last 3 hours) come from memory, since this admin started; minutes of 2 days and hours of 90 days from Postgres too.',
        querystring: mendedBy(
          z.strictObject({
            domain: domainSchema,
            policy: nameSchema,
            limitName: nameSchema.optional().describe('only this limit of the policy'),
            key: key.optional().describe('only this hot key, as /usage/top and /shares name it'),
            region: nameSchema.optional().describe('only what this region counted'),
            resolution: z.enum(RESOLUTIONS).default('minute'),
            from: instant.optional().describe('default: 60 buckets back, or a day for hours'),
            to: instant.optional().describe('default: now'),
            cursor: pageQuery.cursor,
            limit: decimal(1, BUCKETS_MAX)
              .default(BUCKETS_DEFAULT)
              .describe('stretches of time on a page'),
          }),
          HISTORY_FIXES,
        ),
        response: { 200: usageHistoryReplySchema, ...failures },
      },
    },
    async (req) => {
      const { resolution, key: name = null, region, limit, cursor } = req.query
      const nowMs = deps.wallMs()
      const { fromMs, toMs } = decodeSpan(req.query, nowMs)
      const [startMs, endMs] = decodeCursor(historyCursor, cursor) ?? [fromMs, toMs]
      const { slotMs } = SPANS[resolution]
      const pageEndMs = Math.min(endMs, startMs + limit * slotMs)
      const [policy] = policiesOf(deps, req.query)
      if (policy === undefined) throw noPolicy(req.query)
      const limits = policy.limits.filter(
        (one) => req.query.limitName === undefined || one.name === req.query.limitName,
      )
      const ask: HistoryAsk = {
        limits,
        resolution,
        key: name,
        region,
        fromMs: startMs,
        toMs: pageEndMs,
      }
      const { items, isPartial } = await readUsageHistory(deps, ask)
      return {
        at: isoTime(nowMs),
        resolution,
        from: isoTime(startMs),
        to: isoTime(pageEndMs),
        key: name,
        regions: agesOf({ members: deps.cache.members, live: deps.live, nowMs }),
        isPartial,
        items: [...items],
        next: pageEndMs < endMs ? encodeCursor([pageEndMs, endMs]) : null,
      }
    },
  )
}

/** Whole buckets, none that nothing is kept of. */
function decodeSpan(
  query: {
    readonly resolution: HistoryAsk['resolution']
    readonly from?: string | undefined
    readonly to?: string | undefined
  },
  nowMs: number,
): { readonly fromMs: number; readonly toMs: number } {
  const { slotMs, keptMs, usualMs } = SPANS[query.resolution]
  const latestMs = Math.ceil((nowMs + 1) / slotMs) * slotMs
  const askedTo = query.to === undefined ? latestMs : Date.parse(query.to)
  const toMs = Math.min(latestMs, Math.ceil(askedTo / slotMs) * slotMs)
  const askedFrom = query.from === undefined ? toMs - usualMs : Date.parse(query.from)
  const startMs = Math.min(latestMs, Math.floor(askedFrom / slotMs) * slotMs)
  const fromMs = Math.max(latestMs - keptMs, startMs, 0)
  return { fromMs, toMs: Math.max(fromMs, toMs) }
}

function policiesOf(
  { cache }: AdminDeps,
  query: { readonly domain?: string | undefined; readonly policy?: string | undefined },
): readonly Policy[] {
  return [...cache.policies]
    .filter(({ domain }) => query.domain === undefined || domain === query.domain)
    .filter(({ name }) => query.policy === undefined || name === query.policy)
}

function noPolicy({ domain, policy }: { domain: string; policy: string }): QuotaError {
  return new QuotaError('QUOTA_POLICY_NOT_FOUND', `there is no policy ${domain}/${policy}`)
}

function isoTime(ms: number): string {
  return new Date(ms).toISOString()
}
