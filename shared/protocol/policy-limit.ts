/** One limit of a policy document, and how to mend each of its fields. */
import { z } from 'zod'
import { CALENDAR_UNITS, parseTimeZone } from '../core/calendar.ts'
import { SHARDS_MAX } from '../core/counter-parts.ts'
import { ALGORITHMS, hasBurst, LEASE_CHOICES } from '../core/policy.ts'
import { REGIONS_MAX, TOKENS_MAX } from '../core/units.ts'
import { choice, describeType, nameSchema, quoted, shortened, whole } from './policy-fields.ts'
import type { Fixes } from './zod-problems.ts'

/** Longest window and longest hold: a leap year. */
export const WINDOW_MS_MAX = 366 * 86_400_000

export const FLOOR_PERCENT_DEFAULT = 2

/** Weights are kept to hundredths of a per cent, so that they can be added up exactly. */
export const WEIGHT_STEPS_PER_PERCENT = 100

export const LIMIT_FIXES: Fixes = {
  algorithm: `use ${quoted(ALGORITHMS)}`,
  capacity: `give a whole number of tokens from 0 (deny all) to ${TOKENS_MAX}`,
  windowMs: `give a whole number of milliseconds from 1 to ${WINDOW_MS_MAX}`,
  calendar: 'give a unit and a time zone, such as {"unit":"day","timeZone":"Europe/Berlin"}',
  unit: `use ${quoted(CALENDAR_UNITS)}`,
  timeZone: 'use an IANA name such as "UTC" or "Europe/Berlin"',
  holdMs: `give the longest that a caller may hold, a whole number of milliseconds from 1 to ${WINDOW_MS_MAX}`,
  burst: `give a whole number of tokens from 1 to ${TOKENS_MAX}, or leave it out`,
  split: 'give weights in per cent that sum to 100, such as {"us-east-1":60,"eu-west-1":40}',
  floorPercent: 'give a whole number from 0 to 100',
  candidate: 'give the numbers to try beside the live ones, such as {"capacity":500}',
  shards: `give a whole number from 1 to ${SHARDS_MAX}, the same in all limits of the policy, or leave it out`,
  leases: `use ${quoted(LEASE_CHOICES)}, or leave it out`,
}

const weight = z
  .number({ error: describeType('a weight in per cent') })
  .min(0, { error: 'must not be negative' })
  .max(100, { error: 'must be at most 100' })
  .refine((value) => isInSteps(value), { error: 'has more than two decimal places' })

/** Weights in per cent by region; they sum to 100. */
export const splitSchema = z
  .record(nameSchema, weight, { error: describeType('an object of weights by region') })
  .refine((split) => Object.keys(split).length <= REGIONS_MAX, {
    error: `has more than ${REGIONS_MAX} regions`,
  })
  .refine((split) => sumOfSteps(split) === 100 * WEIGHT_STEPS_PER_PERCENT, {
    error: (issue) => `sums to ${percentOf(issue.input)}, and must sum to 100`,
  })

const calendarSchema = z
  .strictObject(
    {
      unit: choice(CALENDAR_UNITS),
      timeZone: z
        .string({ error: describeType('the name of a time zone') })
        .refine((name) => parseTimeZone(name) !== null, {
          error: (issue) => `"${shortened(issue.input)}" is not a known time zone`,
        })
        // As IANA spells it, so that two spellings are one calendar.
        .overwrite((name) => parseTimeZone(name) ?? name),
    },
    { error: describeType('a unit and a time zone') },
  )
  .meta({ id: 'Calendar' })

const burst = whole(1, TOKENS_MAX)

const candidateSchema = z
  .strictObject(
    { capacity: whole(0, TOKENS_MAX), burst: burst.exactOptional() },
    { error: describeType('an object of numbers') },
  )
  .meta({ id: 'CandidateDocument' })

const limitFields = z.strictObject({
  name: nameSchema,
  algorithm: choice(ALGORITHMS),
  capacity: whole(0, TOKENS_MAX),
  windowMs: whole(1, WINDOW_MS_MAX).exactOptional(),
  calendar: calendarSchema.exactOptional(),
  holdMs: whole(1, WINDOW_MS_MAX).exactOptional(),
  burst: burst.exactOptional(),
  split: splitSchema,
  floorPercent: whole(0, 100).default(FLOOR_PERCENT_DEFAULT),
  candidate: candidateSchema.exactOptional(),
  shards: whole(1, SHARDS_MAX)
    .default(1)
    .describe('parts in which each key is counted, on as many slots of a Redis Cluster'),
  leases: choice(LEASE_CHOICES).default('auto'),
})

/** One limit as an operator writes it. */
export const limitDocumentSchema = limitFields
  .superRefine(requireItsTimes)
  .superRefine(requireItsBursts)
  .meta({ id: 'LimitDocument' })

/** A limit whose window is missing must never load as one that does not limit. */
function requireItsTimes(limit: z.output<typeof limitFields>, context: z.RefinementCtx): void {
  const { algorithm, windowMs, calendar } = limit
  const isHeld = algorithm === 'concurrency'
  const allowed = { windowMs: !isHeld, calendar: algorithm === 'fixed_window', holdMs: isHeld }
  const given = TIMES.filter((field) => limit[field] !== undefined)
  const refuse = (field: string, message: string): void => {
    context.addIssue({ code: 'custom', path: [field], message })
  }
  for (const field of given.filter((name) => !allowed[name])) {
    refuse(field, `is not for ${algorithm}; leave it out`)
  }
  if (!given.some((field) => allowed[field])) refuse(isHeld ? 'holdMs' : 'windowMs', 'is missing')
  if (allowed.calendar && windowMs !== undefined && calendar !== undefined) {
    refuse('calendar', 'is given beside windowMs; keep one of the two')
  }
}

const TIMES = ['windowMs', 'calendar', 'holdMs'] as const

function requireItsBursts(limit: z.output<typeof limitFields>, context: z.RefinementCtx): void {
  const parts = [
    { path: ['burst'], ...limit },
    { path: ['candidate', 'burst'], ...limit.candidate },
  ]
  for (const part of parts) {
    if (part.burst === undefined) continue
    if (!hasBurst(limit.algorithm)) {
      const message = `a ${limit.algorithm.replace('_', ' ')} has no burst; leave it out`
      context.addIssue({ code: 'custom', path: part.path, message })
    } else if (part.capacity === 0) {
      const message = 'a capacity of 0 denies all, bursts included; leave it out'
      context.addIssue({ code: 'custom', path: part.path, message })
    }
  }
}

/** Weights of a split in hundredths of a per cent; whole numbers. */
export function weightSteps(split: Readonly<Record<string, number>>): Record<string, number> {
  const steps = Object.entries(split).map(([region, value]) => [region, stepsOf(value)])
  return Object.fromEntries(steps)
}

/** A split in per cent of which `apportion` deals out the steps. */
export function weightsOfSteps(
  apportion: (steps: number) => Readonly<Record<string, number>>,
): Record<string, number> {
  const steps = Object.entries(apportion(100 * WEIGHT_STEPS_PER_PERCENT))
  return Object.fromEntries(
    steps
      .filter(([, part]) => part > 0)
      .map(([region, part]) => [region, part / WEIGHT_STEPS_PER_PERCENT]),
  )
}

function stepsOf(percent: number): number {
  return Math.round(percent * WEIGHT_STEPS_PER_PERCENT)
}

/** 33.33 times 100 is not whole in binary, and is told from 33.333 by how far it is off. */
function isInSteps(percent: number): boolean {
  return Math.abs(percent * WEIGHT_STEPS_PER_PERCENT - stepsOf(percent)) < 1e-6
}

function sumOfSteps(split: Readonly<Record<string, number>>): number {
  return Object.values(split).reduce((sum, percent) => sum + stepsOf(percent), 0)
}

function percentOf(split: unknown): number {
  const values = typeof split === 'object' && split !== null ? Object.values(split) : []
  const steps = values.map((value) => stepsOf(Number(value)))
  return steps.reduce((sum, value) => sum + value, 0) / WEIGHT_STEPS_PER_PERCENT
}
