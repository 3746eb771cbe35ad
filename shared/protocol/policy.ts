/**
 * Policy documents as operators write them (admin API, YAML files of the CLI) and as admin shows them.
 *
 * Unknown fields are refused: a misspelt field that is ignored is a limit that does not limit.
 */
import { z } from 'zod'
import { ENTRIES_MAX, ENTRY_KEY_BYTES_MAX, ENTRY_VALUE_BYTES_MAX } from '../core/descriptor.ts'
import { ALGORITHMS, STORE_FAILURE_BEHAVIOURS } from '../core/policy.ts'
import { REGIONS_MAX, TOKENS_MAX } from '../core/units.ts'
import { REGION_PATTERN } from './subjects.ts'
import { type Fixes, fieldOf } from './zod-problems.ts'

/** What a domain, policy, limit or region may be called: safe in URLs, subjects, labels and header fields. */
export const NAME_PATTERN = REGION_PATTERN

/** Longest description. It travels to every region with its policy, so it is a note and not a document. */
export const DESCRIPTION_BYTES_MAX = 65_536

/** Each limit of a policy is one more counter on every check that matches it. */
export const LIMITS_MAX = 16

/** Longest window: a leap year. */
export const WINDOW_MS_MAX = 366 * 86_400_000

export const FLOOR_PERCENT_DEFAULT = 2

/** Weights are kept to hundredths of a per cent, so that they can be added up exactly. */
export const WEIGHT_STEPS_PER_PERCENT = 100

/** How to mend the name of a domain, policy, limit or region. */
export const NAME_FIX =
  'use lower-case letters, digits and hyphens, at most 63, not starting with a hyphen'

/** How to mend each field of a policy document, for problem documents. */
export const POLICY_FIXES: Fixes = {
  domain: NAME_FIX,
  name: NAME_FIX,
  description: `give at most ${DESCRIPTION_BYTES_MAX} bytes of UTF-8`,
  match: `give 1 to ${ENTRIES_MAX} entries such as {"key":"tenant"}`,
  key: `give a descriptor key of 1 to ${ENTRY_KEY_BYTES_MAX} bytes`,
  value: `give a value of 1 to ${ENTRY_VALUE_BYTES_MAX} bytes, or leave it out to match every value`,
  onStoreFailure: 'use "allow" or "deny"',
  mode: 'use "strict", or leave it out',
  limits: `give 1 to ${LIMITS_MAX} limits`,
  algorithm: 'use "token_bucket" or "fixed_window"',
  capacity: `give a whole number of tokens from 1 to ${TOKENS_MAX}`,
  windowMs: `give a whole number of milliseconds from 1 to ${WINDOW_MS_MAX}`,
  burst: `give a whole number of tokens from 1 to ${TOKENS_MAX}, or leave it out`,
  split: 'give weights in per cent that sum to 100, such as {"us-east-1":60,"eu-west-1":40}',
  floorPercent: 'give a whole number from 0 to 100',
}

const text = (bytesMax: number) =>
  z
    .string({ error: describeType('a string') })
    .refine((value) => Buffer.byteLength(value) <= bytesMax, {
      error: (issue) =>
        `is ${Buffer.byteLength(String(issue.input))} bytes, and at most ${bytesMax} are allowed`,
    })
    // Both would be changed on their way through Postgres or UTF-8, and then match nothing.
    .refine((value) => !/\0|\p{Surrogate}/u.test(value), {
      error: 'must be well-formed Unicode without NUL characters',
    })

const nonEmptyText = (bytesMax: number) =>
  text(bytesMax).refine((value) => value !== '', { error: 'must not be empty' })

export const nameSchema = z
  .string({ error: describeType('a name') })
  .regex(NAME_PATTERN, { error: (issue) => `"${shortened(issue.input)}" is not a usable name` })

const whole = (min: number, max: number) => {
  const error = (issue: { input?: unknown }): string =>
    issue.input === undefined
      ? 'is missing'
      : `must be a whole number from ${min} to ${max}, not ${shortened(JSON.stringify(issue.input))}`
  return z.number({ error }).int({ error }).min(min, { error }).max(max, { error })
}

const matchEntrySchema = z
  .strictObject({
    key: nonEmptyText(ENTRY_KEY_BYTES_MAX),
    value: nonEmptyText(ENTRY_VALUE_BYTES_MAX).exactOptional(),
  })
  .meta({ id: 'MatchEntry' })

const weight = z
  .number({ error: describeType('a weight in per cent') })
  .min(0, { error: 'must not be negative' })
  .max(100, { error: 'must be at most 100' })
  .refine((value) => isInSteps(value), { error: 'has more than two decimal places' })

/** Weights in per cent by region; they sum to 100. */
const splitSchema = z
  .record(nameSchema, weight, { error: describeType('an object of weights by region') })
  .refine((split) => Object.keys(split).length <= REGIONS_MAX, {
    error: `has more than ${REGIONS_MAX} regions`,
  })
  .refine((split) => sumOfSteps(split) === 100 * WEIGHT_STEPS_PER_PERCENT, {
    error: (issue) => `sums to ${percentOf(issue.input)}, and must sum to 100`,
  })

/** One limit as an operator writes it. */
export const limitDocumentSchema = z
  .strictObject({
    name: nameSchema,
    algorithm: z.enum(ALGORITHMS, { error: 'is not a known algorithm' }),
    capacity: whole(1, TOKENS_MAX),
    windowMs: whole(1, WINDOW_MS_MAX),
    burst: whole(1, TOKENS_MAX).exactOptional(),
    split: splitSchema,
    floorPercent: whole(0, 100).default(FLOOR_PERCENT_DEFAULT),
  })
  .refine((limit) => limit.algorithm === 'token_bucket' || limit.burst === undefined, {
    path: ['burst'],
    error: 'a fixed window has no burst; leave it out',
  })
  .meta({ id: 'LimitDocument' })

const documentShape = {
  domain: nameSchema,
  name: nameSchema,
  description: text(DESCRIPTION_BYTES_MAX).default(''),
  match: z
    .array(matchEntrySchema, { error: describeType('a list of entries') })
    .min(1, { error: 'must not be empty' })
    .max(ENTRIES_MAX, { error: `has more than ${ENTRIES_MAX} entries` }),
  onStoreFailure: z.enum(STORE_FAILURE_BEHAVIOURS, { error: 'is not known' }).default('allow'),
  mode: z.enum(['strict'], { error: 'is not known in this version' }).default('strict'),
  limits: z
    .array(limitDocumentSchema, { error: describeType('a list of limits') })
    .min(1, { error: 'must not be empty' })
    .max(LIMITS_MAX, { error: `has more than ${LIMITS_MAX} limits` })
    .superRefine(refuseTwins),
}

/** A policy as an operator writes it. */
export const policyDocumentSchema = z
  .strictObject(documentShape, { error: describeType('a JSON object') })
  .meta({ id: 'PolicyDocument' })
export type PolicyDocument = z.output<typeof policyDocumentSchema>
export type LimitDocument = PolicyDocument['limits'][number]

/** The body of a PUT: domain and name may be left to the path, and must be those of the path when given. */
export const policyPutSchema = z
  .strictObject(
    {
      ...documentShape,
      domain: nameSchema.exactOptional(),
      name: nameSchema.exactOptional(),
    },
    { error: describeType('a JSON object') },
  )
  .meta({ id: 'PolicyPut' })

/** Weights of a split in hundredths of a per cent; whole numbers. */
export function weightSteps(split: Readonly<Record<string, number>>): Record<string, number> {
  const steps = Object.entries(split).map(([region, value]) => [region, stepsOf(value)])
  return Object.fromEntries(steps)
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

function refuseTwins(limits: readonly { readonly name: string }[], context: z.RefinementCtx): void {
  const seen = new Map<string, number>()
  for (const [index, { name }] of limits.entries()) {
    const first = seen.get(name)
    if (first === undefined) seen.set(name, index)
    else {
      const message = `is also the name of ${fieldOf(['limits', first])}`
      context.addIssue({ code: 'custom', path: [index, 'name'], message })
    }
  }
}

function describeType(expected: string): (issue: { input?: unknown }) => string {
  return (issue) => {
    if (issue.input === undefined) return 'is missing'
    return `must be ${expected}, not ${shortened(JSON.stringify(issue.input))}`
  }
}

/** Input repeated in a message is cut, since it may be as long as a body. */
function shortened(input: unknown): string {
  const shown = String(input)
  return shown.length <= 60 ? shown : `${shown.slice(0, 60)}…`
}
