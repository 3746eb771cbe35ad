/** What admin answers about usage over time and about how regions hear one another. */
import { z } from 'zod'
import { limitHead, regionAges } from './admin-replies.ts'

const whole = z.number().int()
const time = z.iso.datetime().describe('UTC, RFC 3339')
const next = z
  .string()
  .nullable()
  .describe('pass as ?cursor= for the next page; null: this is the last')

const amounts = {
  admitted: whole,
  denied: whole,
  returned: whole,
  unmet: whole.describe(
    'estimate of the tokens asked for beyond what the share of the region gave',
  ),
}
const regionAmounts = z.array(z.object({ region: z.string(), ...amounts }))

export const TOP_BY = ['use', 'denial', 'unmet'] as const
export type TopBy = (typeof TOP_BY)[number]

export const usageTopReplySchema = z
  .object({
    at: time,
    by: z.enum(TOP_BY),
    from: time,
    to: time,
    regions: regionAges,
    items: z.array(
      z.object({
        rank: whole,
        ...limitHead,
        key: z.string().describe('the descriptor, or # and its hash when it is long'),
        value: whole.describe('what the ranking goes by: used, denied or unmet tokens'),
        isHungry: z.boolean().describe('some region denies it at present for want of a share'),
        total: z.object(amounts),
        regions: regionAmounts,
      }),
    ),
    keysLeftOut: whole.describe(
      'times that a hot key found no place in the history, since the start',
    ),
    next,
  })
  .meta({ id: 'UsageTop' })
export type UsageTopReply = z.infer<typeof usageTopReplySchema>

export const RESOLUTIONS = ['second', 'minute', 'hour'] as const
export type Resolution = (typeof RESOLUTIONS)[number]

export const usageHistoryReplySchema = z
  .object({
    at: time,
    resolution: z.enum(RESOLUTIONS),
    from: time.describe('start of the first bucket asked for'),
    to: time.describe('end of the last bucket asked for'),
    key: z.string().nullable().describe('the hot key that was asked for; null: all keys together'),
    regions: regionAges,
    isPartial: z
      .boolean()
      .describe('Postgres did not answer, so older buckets may be missing and present ones lower'),
    items: z
      .array(
        z.object({
          startsAt: time,
          limit: z.string(),
          limitId: whole,
          isRunning: z.boolean().describe('the bucket has not ended, or a region may still report'),
          total: z.object(amounts),
          regions: regionAmounts,
        }),
      )
      .describe('buckets with anything in them, oldest first'),
    next,
  })
  .meta({ id: 'UsageHistory' })
export type UsageHistoryReply = z.infer<typeof usageHistoryReplySchema>

export const lagsReplySchema = z
  .object({
    at: time,
    admin: z.object({
      bus: z.enum(['up', 'down']).describe('this admin and its NATS'),
      database: z.enum(['up', 'down']).describe('this admin and its Postgres'),
    }),
    regions: z.array(
      z.object({
        region: z.string(),
        isReporting: z.boolean(),
        lastHeardAt: time.nullable(),
        ageMs: whole.nullable(),
        store: z
          .enum(['up', 'recovering', 'unknown'])
          .describe(
            'its Redis: a daemon speaks only while it leads over it; unknown: it is silent',
          ),
        bus: z
          .enum(['up', 'not-heard-here', 'unknown'])
          .describe('not-heard-here: others acknowledge what this admin does not hear'),
        appliedRevision: whole.nullable(),
        hungryKeys: whole.describe(
          'keys that it denies for want of a share, of the domains of the token',
        ),
        audit: z
          .object({
            overAdmitted: z
              .number()
              .describe(
                'tokens that all regions together admitted of its worst key beyond the limit; must be 0',
              ),
            alarms: whole.describe('breaches that its ledger counted since it started; must be 0'),
            ageMs: whole,
          })
          .nullable()
          .describe(
            'what its daemon finds when it audits all regions; null: not heard lately, or not shown to a token that is limited to domains',
          ),
      }),
    ),
    pairs: z
      .array(
        z.object({
          from: z.string().describe('who tells'),
          to: z.string().describe('who hears'),
          lagMs: whole
            .nullable()
            .describe(
              'age of the newest record of `from` that `to` had when it last spoke; null: none',
            ),
          asOf: time.nullable().describe('when `to` last spoke'),
          ageMs: whole.nullable(),
        }),
      )
      .describe('every ordered pair of regions'),
  })
  .meta({ id: 'Lags' })
export type LagsReply = z.infer<typeof lagsReplySchema>
