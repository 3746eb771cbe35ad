/** What a change would do, told in place of doing it. */
import { z } from 'zod'
import { documentDiffSchema } from './revisions.ts'

const whole = z.number().int()

const part = z
  .object({ units: whole.describe('millionths of the limit'), tokens: whole })
  .nullable()

export const planSchema = z
  .object({
    dryRun: z.literal(true).describe('nothing was changed'),
    changes: z.array(documentDiffSchema),
    changesLeftOut: whole,
    limits: z
      .array(
        z.object({
          domain: z.string(),
          policy: z.string(),
          limit: z.string(),
          change: z
            .enum(['added', 'removed', 'changed', 'restarted'])
            .describe('restarted: its counters would start with nothing spent'),
          capacity: z.object({ before: whole.nullable(), after: whole.nullable() }),
          regions: z
            .array(z.object({ region: z.string(), before: part, after: part }))
            .describe('the part that each region has of its own, without loans'),
        }),
      )
      .describe('limits of which the numbers or the parts would be others'),
    limitsLeftOut: whole,
    keysOver: z
      .array(
        z.object({
          domain: z.string(),
          policy: z.string(),
          limit: z.string(),
          key: z.string(),
          used: whole.describe(
            'within the last window; a second at least, and three hours at most',
          ),
          capacity: whole,
        }),
      )
      .describe('hot keys that used more than the new limit already, those with most use first'),
    warnings: z.array(
      z.object({ field: z.string(), message: z.string(), fix: z.string().optional() }),
    ),
  })
  .meta({ id: 'Plan' })
export type Plan = z.infer<typeof planSchema>
