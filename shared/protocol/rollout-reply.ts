/** What admin answers about where a revision is applied. */
import { z } from 'zod'

const whole = z.number().int()
const time = z.iso.datetime().describe('UTC, RFC 3339')

/** `unknown`: it had not applied the revision when it was last heard, and is not heard at present. */
export const ROLLOUT_STATES = ['applied', 'pending', 'refused', 'unknown'] as const
export type RolloutState = (typeof ROLLOUT_STATES)[number]

const part = {
  state: z.enum(ROLLOUT_STATES),
  appliedRevision: whole.nullable().describe('newest revision in force; null: none is known'),
  since: time
    .nullable()
    .describe(
      'when the revision asked for came into force; null: it did not, or before admin listened',
    ),
  reason: z.string().nullable().describe('why it is refused, or what it waits for'),
}

export const rolloutReplySchema = z
  .object({
    revision: whole,
    at: time,
    isComplete: z.boolean().describe('every enforcer of every region applies it'),
    isCompleteInReach: z
      .boolean()
      .describe('every enforcer of every region that is heard at present applies it'),
    regions: z.array(
      z.object({
        region: z.string(),
        ...part,
        heardAgeMs: whole.nullable().describe('age of the last word; null: nothing was heard yet'),
        unknownSince: time.nullable().describe('last word of a region that is not heard any more'),
        enforcers: z.array(
          z.object({ id: z.string(), name: z.string().describe('host and port'), ...part }),
        ),
        unlistedEnforcers: whole.describe('enforcers beside those listed'),
      }),
    ),
  })
  .meta({ id: 'Rollout' })
export type RolloutReply = z.infer<typeof rolloutReplySchema>
export type RegionRollout = RolloutReply['regions'][number]
