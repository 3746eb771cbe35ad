/** Emergency actions as operators put them and as admin shows them. */
import { z } from 'zod'
import { ENTRY_VALUE_BYTES_MAX } from '../core/descriptor.ts'
import { EMERGENCY_KINDS, type EmergencyKind } from '../core/emergency.ts'
import { TOKENS_MAX } from '../core/units.ts'
import {
  choice,
  describeType,
  domainSchema,
  nameSchema,
  nonEmptyText,
  whole,
} from './policy-fields.ts'
import { splitSchema } from './policy-limit.ts'
import type { Fixes } from './zod-problems.ts'

/** Longest life of an action: what is to last for longer than a week is an edit of the policy. */
export const EMERGENCY_TTL_SECONDS_MAX = 7 * 86_400

/**
 * Actions of one policy at a time; a list of more people to block is a list of overrides. Their values travel with the
 * policy, whose largest size beside them must fit a NATS message.
 */
export const EMERGENCY_ACTIONS_MAX = 50

/** Factors beyond these are typing errors. */
const FACTOR_MIN = 0.01
const FACTOR_MAX = 1_000

export const REASON_BYTES_MAX = 1_000

export const EMERGENCY_FIXES: Fixes = {
  kind: 'use "block", "allow", "multiply", "fix", "freeze" or "pin"',
  policy: 'name the policy, such as per-tenant of the domain api',
  value: "give the value of the tenant's entry, such as acme",
  factor: `give a number from ${FACTOR_MIN} to ${FACTOR_MAX}, such as 2 or 0.5`,
  limit: 'name one of its limits',
  capacity: `give a whole number of tokens from 0 (deny all) to ${TOKENS_MAX}`,
  burst: 'give a whole number of tokens from 1 on for a bucket, or leave it out',
  split: 'give weights in per cent of registered regions that sum to 100, or leave it out',
  reason: 'say why, for whoever finds it in force',
  ttlSeconds: `give a whole number of seconds from 1 to ${EMERGENCY_TTL_SECONDS_MAX}: every action ends by itself`,
}

const factor = z
  .number({ error: describeType('a number') })
  .min(FACTOR_MIN, { error: `must be at least ${FACTOR_MIN}` })
  .max(FACTOR_MAX, { error: `must be at most ${FACTOR_MAX}` })

/** Which fields each kind takes beside those of all. `limit` may be left out where there is one limit. */
const FIELDS: Readonly<
  Record<EmergencyKind, { needs: readonly string[]; takes: readonly string[] }>
> = {
  block: { needs: ['value'], takes: [] },
  allow: { needs: ['value'], takes: [] },
  multiply: { needs: ['factor'], takes: ['limit'] },
  fix: { needs: ['capacity'], takes: ['limit', 'burst'] },
  freeze: { needs: [], takes: ['limit'] },
  pin: { needs: [], takes: ['limit', 'split'] },
}

const OPTIONAL = ['value', 'limit', 'factor', 'capacity', 'burst', 'split'] as const

export const emergencyPutSchema = z
  .strictObject(
    {
      kind: choice(EMERGENCY_KINDS),
      domain: domainSchema,
      policy: nameSchema,
      value: nonEmptyText(ENTRY_VALUE_BYTES_MAX).exactOptional(),
      limit: nameSchema.exactOptional(),
      factor: factor.exactOptional(),
      capacity: whole(0, TOKENS_MAX).exactOptional(),
      burst: whole(1, TOKENS_MAX).exactOptional(),
      split: splitSchema.exactOptional(),
      reason: nonEmptyText(REASON_BYTES_MAX),
      ttlSeconds: whole(1, EMERGENCY_TTL_SECONDS_MAX),
    },
    { error: describeType('a JSON object') },
  )
  .superRefine((put, context) => {
    const { needs, takes } = FIELDS[put.kind]
    const refuse = (field: string, message: string): void =>
      context.addIssue({ code: 'custom', path: [field], message })
    for (const field of needs) if (!(field in put)) refuse(field, 'is missing')
    for (const field of OPTIONAL) {
      const isKnown = needs.includes(field) || takes.includes(field)
      if (field in put && !isKnown) refuse(field, `is not for ${put.kind}; leave it out`)
    }
  })
  .meta({
    id: 'EmergencyActionPut',
    examples: [
      {
        kind: 'block',
        domain: 'api',
        policy: 'per-tenant',
        value: 'mallory',
        reason: 'scrapes since 02:40',
        ttlSeconds: 3_600,
      },
    ],
  })
export type EmergencyPut = z.output<typeof emergencyPutSchema>

const number = z.number().int()
const time = z.iso.datetime().describe('UTC, RFC 3339')

export const emergencyReplySchema = z
  .object({
    id: number,
    kind: z.enum(EMERGENCY_KINDS),
    domain: z.string(),
    policy: z.string(),
    value: z.string().optional().describe('tenant that is blocked or let through'),
    limit: z.string().optional().describe('absent where it holds for every limit'),
    factor: z.number().optional(),
    capacity: number.optional(),
    burst: number.optional(),
    split: z.record(z.string(), z.number()).optional().describe('weights in per cent by region'),
    reason: z.string(),
    begunBy: z.string(),
    begunAt: time,
    expiresAt: time.describe('by the clock of each region'),
    remainingSeconds: number,
  })
  .meta({ id: 'EmergencyAction' })
export type EmergencyReply = z.infer<typeof emergencyReplySchema>

export const emergencyBegunSchema = emergencyReplySchema
  .extend({ revision: number.describe('see /v1/rollouts/{revision} for where it is in force') })
  .meta({ id: 'EmergencyActionBegun' })

export const emergencyListSchema = z
  .object({
    items: z.array(emergencyReplySchema),
    next: z
      .string()
      .nullable()
      .describe('pass as ?cursor= for the next page; null: this is the last'),
  })
  .meta({ id: 'EmergencyActionList' })
