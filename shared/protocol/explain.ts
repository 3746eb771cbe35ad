/** What `POST /v1/explain` takes and answers. */
import { z } from 'zod'
import { ENTRIES_MAX, ENTRY_KEY_BYTES_MAX, ENTRY_VALUE_BYTES_MAX } from '../core/descriptor.ts'
import { ALGORITHMS } from '../core/policy.ts'
import { domainSchema, nameSchema } from './policy.ts'
import { nonEmptyText } from './policy-fields.ts'

export const explainRequestSchema = z
  .strictObject({
    domain: domainSchema,
    entries: z
      .array(
        z.strictObject({
          key: nonEmptyText(ENTRY_KEY_BYTES_MAX),
          value: nonEmptyText(ENTRY_VALUE_BYTES_MAX),
        }),
      )
      .min(1)
      .max(ENTRIES_MAX)
      .describe('of one descriptor, in order'),
    policy: nameSchema.exactOptional().describe('one that is listed, whether it is near or not'),
  })
  .meta({
    id: 'ExplainRequest',
    examples: [{ domain: 'api', entries: [{ key: 'tenant', value: 'acme' }] }],
  })

const whole = z.number().int()
const time = z.iso.datetime()
const matchSchema = z.array(
  z.object({ key: z.string(), value: z.string().optional(), shared: z.boolean().optional() }),
)

export const explainReplySchema = z
  .object({
    at: time,
    domain: z.string(),
    entries: z.array(z.object({ key: z.string(), value: z.string() })),
    revision: whole.describe("the plane's, by which this is explained"),
    outcome: z
      .enum(['limited', 'denied', 'unlimited', 'watched', 'unmatched'])
      .describe('watched: the policy is a shadow, and denies nothing'),
    policies: z
      .array(
        z.object({
          policy: z.string(),
          revision: whole,
          match: matchSchema,
          verdict: z.enum(['governs', 'lost', 'no-match']),
          because: z.string(),
        }),
      )
      .describe('in the order in which they are tried: those that match, then the nearest others'),
    policiesLeftOut: whole.describe('policies of the domain that match less'),
    override: z
      .object({
        value: z.string().describe('the tenant'),
        kind: z.enum(['tier', 'numbers', 'unlimited', 'deny']),
        tier: z.string().optional(),
        expiresAt: time.optional(),
      })
      .nullable()
      .describe('what the tenant has in place of the numbers of the policy'),
    replaces: z.array(z.string()).describe('policies left out of checks that meet this one'),
    limits: z.array(
      z.object({
        limit: z.string(),
        algorithm: z.enum(ALGORITHMS),
        capacity: whole,
        burst: whole,
        windowMs: whole,
        from: z.string().describe('where the numbers are from: policy, tier NAME, or override'),
        isCandidate: z.boolean().describe('evaluated beside the live numbers, never enforced'),
        counter: z.string().describe('name of the counter, the same in every region'),
        regions: z.array(
          z.object({
            region: z.string(),
            share: z.object({ units: whole, tokens: whole }),
            isHot: z
              .boolean()
              .describe('the region has told of this counter; else the base stands'),
            isHungry: z.boolean(),
            demandPerSecond: z.number(),
            admitted: whole.describe('since the region began to track the counter'),
            denied: whole,
            appliedRevision: whole.nullable(),
            ageMs: whole.nullable().describe('of what the region said last'),
          }),
        ),
      }),
    ),
  })
  .meta({ id: 'Explanation' })
export type ExplainReply = z.infer<typeof explainReplySchema>
