/** What admin answers. Replies carry these fields and no others; readers ignore fields they do not know. */
import { z } from 'zod'
import { CALENDAR_UNITS } from '../core/calendar.ts'
import {
  ALGORITHMS,
  LEASE_CHOICES,
  LENDINGS,
  MODES,
  OBJECTIVES,
  REBASE_CHOICES,
  STORE_FAILURE_BEHAVIOURS,
} from '../core/policy.ts'
import { emergencyReplySchema } from './emergency.ts'

const whole = z.number().int()
const time = z.iso.datetime().describe('UTC, RFC 3339')
const ageMs = whole
  .nullable()
  .describe('age of the newest record of the region; null: none came yet')

const matchEntrySchema = z.object({
  key: z.string(),
  value: z.string().optional(),
  shared: z.boolean().optional().describe('all values that match are counted together'),
})

export const limitReplySchema = z
  .object({
    name: z.string(),
    algorithm: z.enum(ALGORITHMS),
    capacity: whole,
    windowMs: whole.optional(),
    calendar: z.object({ unit: z.enum(CALENDAR_UNITS), timeZone: z.string() }).optional(),
    holdMs: whole.optional().describe('longest that a holder of a concurrency limit may hold'),
    burst: whole.describe('in force; the capacity when none was given'),
    burstFollowsCapacity: z.boolean().describe('no burst was given'),
    candidate: z
      .object({ capacity: whole, burst: whole, burstFollowsCapacity: z.boolean(), id: whole })
      .optional()
      .describe('numbers that are evaluated beside these and never enforced'),
    shards: whole.describe('counters that a hot key is spread over'),
    leases: z.enum(LEASE_CHOICES),
    split: z.record(z.string(), z.number()).describe('weights in per cent by region'),
    floorPercent: whole,
    id: whole.describe('identifies the counters; never used again for another limit'),
    usageEpoch: whole.describe('number of resets'),
    epoch: whole.describe('number of the base split'),
    isEpochOpen: z.boolean().describe('regions are still moving to this split'),
    base: z.record(z.string(), whole).describe('millionths of the limit by region'),
    inForce: z
      .object({ capacity: whole, burst: whole, lending: z.enum(LENDINGS) })
      .describe('what it comes to under the emergency actions in force'),
  })
  .meta({ id: 'Limit' })

const numbersByLimitSchema = z.record(
  z.string(),
  z.object({ capacity: whole, burst: whole.optional() }),
)

/** What one tenant has in place of its policy's numbers; exactly one of the four is there. */
export const overrideReplySchema = z
  .object({
    value: z.string(),
    tier: z.string().optional(),
    limits: numbersByLimitSchema.optional(),
    unlimited: z.literal(true).optional(),
    deny: z.literal(true).optional(),
    expiresAt: time.optional(),
  })
  .meta({ id: 'Override' })
export type OverrideReply = z.infer<typeof overrideReplySchema>

export const policyReplySchema = z
  .object({
    domain: z.string(),
    name: z.string(),
    description: z.string(),
    match: z.array(matchEntrySchema),
    onStoreFailure: z.enum(STORE_FAILURE_BEHAVIOURS),
    mode: z.enum(MODES),
    relaxedPercent: whole.optional(),
    objective: z.enum(OBJECTIVES),
    shadow: z.boolean().describe('evaluated and counted; never denies'),
    unlimited: z.boolean(),
    replaces: z.array(z.string()).optional(),
    rebase: z.enum(REBASE_CHOICES),
    acceptSmallLimits: z.boolean(),
    limits: z.array(limitReplySchema),
    tiers: z.record(z.string(), numbersByLimitSchema).optional(),
    overridesBy: z.string().optional(),
    labels: z.record(z.string(), z.string()).optional(),
    overrideCount: whole.describe('tenants with other than the policy says; see /overrides'),
    id: whole,
    revision: whole.describe('plane-wide number of the last change; also the ETag'),
    createdAt: time,
    updatedAt: time,
    emergency: z
      .array(emergencyReplySchema)
      .describe('emergency actions in force; the limits say what they come to'),
    warnings: z
      .array(z.object({ field: z.string(), message: z.string(), fix: z.string().optional() }))
      .describe(
        'what the policy does that its operator may not expect; it is in force all the same',
      ),
  })
  .meta({ id: 'Policy' })
export type PolicyReply = z.infer<typeof policyReplySchema>

const next = z
  .string()
  .nullable()
  .describe('pass as ?cursor= for the next page; null: this is the last')

export const policyListSchema = z
  .object({ items: z.array(policyReplySchema), next })
  .meta({ id: 'PolicyList' })

export const overrideListSchema = z
  .object({ items: z.array(overrideReplySchema), next })
  .meta({ id: 'OverrideList' })

/** What a batch of overrides came to: the policy's revision, and how many overrides it has. */
export const overrideBatchReplySchema = z
  .object({ revision: whole, count: whole })
  .meta({ id: 'OverrideBatchResult' })

/** Where a policy is applied: `saved` is not `applied`. */
export const policyStatusSchema = z
  .object({
    revision: whole,
    isAppliedEverywhere: z.boolean(),
    regions: z.array(
      z.object({
        region: z.string(),
        isApplied: z.boolean(),
        appliedRevision: whole.nullable().describe('newest plane revision that the region applied'),
        ageMs,
        reason: z.string().nullable().describe('what keeps it or one of its enforcers from it'),
      }),
    ),
    openEpochs: z.array(
      z.object({ limit: z.string(), epoch: whole, awaited: z.array(z.string()), openedAt: time }),
    ),
  })
  .meta({ id: 'PolicyStatus' })
export type PolicyStatus = z.infer<typeof policyStatusSchema>

export const regionReplySchema = z
  .object({
    id: z.string(),
    description: z.string(),
    state: z.enum(['active', 'draining', 'drained', 'resuming', 'removing']),
    revision: whole,
    registeredAt: time,
    resumesAt: time
      .optional()
      .describe(
        'when a region that is drained for a time resumes by itself; absent: not before it is told to',
      ),
    move: z
      .object({
        limitsLeft: whole.describe('limits of which the part is still to be moved'),
        awaited: z
          .array(z.string())
          .describe('regions that have not yet said that they work with the new parts'),
      })
      .nullable()
      .describe('how far draining, resuming or removing is; null: nothing moves'),
    health: z.object({
      isReporting: z.boolean().describe('a record came within the last few seconds'),
      ageMs,
      appliedRevision: whole.nullable(),
      isRecovering: z.boolean().describe('lends and uses nothing, after a loss of state'),
      incarnation: whole.nullable(),
    }),
  })
  .meta({ id: 'Region' })
export type RegionReply = z.infer<typeof regionReplySchema>

export const regionListSchema = z
  .object({ items: z.array(regionReplySchema), next })
  .meta({ id: 'RegionList' })

export const auditEntrySchema = z
  .object({
    seq: whole,
    at: time,
    actor: z.string(),
    action: z.string(),
    objectKind: z.enum(['policy', 'domain', 'region', 'token']),
    objectId: z.string(),
    before: z.unknown(),
    after: z.unknown(),
    requestId: z.string(),
    reason: z.string().nullable(),
    revision: whole.nullable().describe('of the plane; null: regions need not know of it'),
  })
  .meta({ id: 'AuditEntry' })
export type AuditEntryReply = z.infer<typeof auditEntrySchema>

export const auditListSchema = z
  .object({ items: z.array(auditEntrySchema), next })
  .meta({ id: 'AuditList' })
export type AuditListReply = z.infer<typeof auditListSchema>

export const regionAges = z
  .array(
    z.object({
      region: z.string(),
      asOf: time.nullable().describe('when its newest record came, which its figures are from'),
      ageMs,
      isRecovering: z.boolean(),
    }),
  )
  .describe('how fresh the figures of each region are')

/** Identifies a limit in a view, with the numbers that its figures are to be read against. */
export const limitHead = {
  domain: z.string(),
  policy: z.string(),
  limit: z.string(),
  limitId: whole,
  capacity: whole,
  windowMs: whole,
  burst: whole,
}

export const sharesReplySchema = z
  .object({
    at: time,
    regions: regionAges,
    limits: z.array(
      z.object({
        ...limitHead,
        epoch: whole,
        isEpochOpen: z.boolean(),
        base: z
          .record(z.string(), whole)
          .describe('units by region; what keys that are not hot have'),
        keys: z
          .array(
            z.object({
              key: z.string().describe('the descriptor, or # and its hash when it is long'),
              regions: z.array(
                z.object({
                  region: z.string(),
                  share: z.object({ units: whole, tokens: whole }),
                  base: z.object({ units: whole, tokens: whole }),
                  lent: whole.describe('units lent to peers'),
                  borrowed: whole.describe('units borrowed from peers'),
                  demandPerSecond: z.number().describe('tokens that the region expects to need'),
                  isHungry: z.boolean(),
                  admitted: whole.describe('since the region began to track the key'),
                  denied: whole,
                  returned: whole,
                  ageMs: whole,
                }),
              ),
              loans: z
                .array(
                  z.object({
                    lender: z.string(),
                    borrower: z.string(),
                    units: whole,
                    tokens: whole,
                    deadline: time
                      .nullable()
                      .describe(
                        'when it lapses unless it is extended, which each record does; null: not known here',
                      ),
                  }),
                )
                .describe('who lent how much to whom at present'),
            }),
          )
          .describe('hot keys, the one with most demand first'),
        keysLeftOut: whole.describe('hot keys beyond ?keys='),
      }),
    ),
    next,
  })
  .meta({ id: 'Shares' })
export type SharesReply = z.infer<typeof sharesReplySchema>

const amounts = { admitted: whole, denied: whole, returned: whole }

export const usageReplySchema = z
  .object({
    at: time,
    regions: regionAges,
    limits: z.array(
      z.object({
        ...limitHead,
        usageWindowMs: whole.describe('length of the windows below; at least a second'),
        windows: z
          .array(
            z.object({
              index: whole,
              startsAt: time,
              endsAt: time,
              isComplete: z.boolean().describe('every region has reported after its end'),
              regions: z.array(z.object({ region: z.string(), ...amounts })),
              total: z.object({
                ...amounts,
                used: whole.describe('admitted less returned'),
                ofCapacity: z
                  .number()
                  .describe('used over what the limit refills in the window, over all keys'),
              }),
            }),
          )
          .describe('the present window and those before it, newest first'),
      }),
    ),
    next,
  })
  .meta({ id: 'Usage' })
export type UsageReply = z.infer<typeof usageReplySchema>

/** An RFC 9457 problem document. */
export const problemSchema = z
  .object({
    type: z.string(),
    title: z.string(),
    status: whole,
    detail: z.string(),
    code: z.string(),
    requestId: z.string(),
    errors: z
      .array(z.object({ field: z.string(), message: z.string(), fix: z.string().optional() }))
      .optional(),
  })
  .meta({ id: 'Problem' })
