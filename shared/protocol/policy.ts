/**
 * Policy documents as operators write them (admin API, YAML files of the CLI) and as admin shows them.
 *
 * Unknown fields are refused: a misspelt field that is ignored is a limit that does not limit.
 */
import { z } from 'zod'
import { ENTRIES_MAX, ENTRY_KEY_BYTES_MAX, ENTRY_VALUE_BYTES_MAX } from '../core/descriptor.ts'
import { MODES, OBJECTIVES, REBASE_CHOICES, STORE_FAILURE_BEHAVIOURS } from '../core/policy.ts'
import { isPattern } from '../core/value-patterns.ts'
import {
  choice,
  DOMAIN_FIX,
  describeType,
  domainSchema,
  flag,
  NAME_FIX,
  nameSchema,
  nonEmptyText,
  quoted,
  text,
  whole,
} from './policy-fields.ts'
import { LABELS_FIX, labelsSchema } from './policy-labels.ts'
import { LIMIT_FIXES, limitDocumentSchema } from './policy-limit.ts'
import { numbersProblems, OVERRIDE_FIXES, tiersSchema } from './policy-override.ts'
import { shardMisfits } from './policy-shards.ts'
import { type Fixes, fieldOf } from './zod-problems.ts'

export {
  DOMAIN_PATTERN,
  domainSchema,
  NAME_FIX,
  NAME_PATTERN,
  nameSchema,
} from './policy-fields.ts'
export { weightSteps, weightsOfSteps } from './policy-limit.ts'

/** Longest description. It travels to every region with its policy, so it is a note and not a document. */
export const DESCRIPTION_BYTES_MAX = 65_536

/** Each limit of a policy is one more counter on every check that matches it. */
export const LIMITS_MAX = 16

/** More than any rule of others replaces. */
export const REPLACES_MAX = 64

/** How to mend each field of a policy document, for problem documents. */
export const POLICY_FIXES: Fixes = {
  ...LIMIT_FIXES,
  ...OVERRIDE_FIXES,
  domain: DOMAIN_FIX,
  name: NAME_FIX,
  description: `give at most ${DESCRIPTION_BYTES_MAX} bytes of UTF-8`,
  match: `give 1 to ${ENTRIES_MAX} entries such as {"key":"tenant"}`,
  key: `give a descriptor key of 1 to ${ENTRY_KEY_BYTES_MAX} bytes`,
  value: `give a value of 1 to ${ENTRY_VALUE_BYTES_MAX} bytes (* stands for any characters), or leave it out to match every value`,
  shared: 'use true where many values match and all are to be counted together, or leave it out',
  onStoreFailure: `use ${quoted(STORE_FAILURE_BEHAVIOURS)}`,
  mode: `use ${quoted(MODES)}, or leave it out`,
  relaxedPercent: 'give a whole number from 1 to 100 with mode "relaxed", and none otherwise',
  objective: `use ${quoted(OBJECTIVES)}, or leave it out`,
  shadow: 'use true or false, or leave it out',
  unlimited: 'use true with no limits, or leave it out',
  replaces: `name up to ${REPLACES_MAX} other policies of the domain, or leave it out`,
  rebase: `use ${quoted(REBASE_CHOICES)}, or leave it out`,
  acceptSmallLimits: 'use true or false, or leave it out',
  limits: `give 1 to ${LIMITS_MAX} limits, or none with "unlimited": true`,
  labels: LABELS_FIX,
}

const matchEntrySchema = z
  .strictObject({
    key: nonEmptyText(ENTRY_KEY_BYTES_MAX),
    value: nonEmptyText(ENTRY_VALUE_BYTES_MAX).exactOptional(),
    shared: flag().exactOptional().describe('all values that match are counted together'),
  })
  .refine(({ value, shared }) => shared !== true || value === undefined || isPattern(value), {
    path: ['shared'],
    error: 'is for many values, and this entry names one',
  })
  // One way to say it, so that two spellings are one match.
  .overwrite(({ shared, ...entry }) => (shared === true ? { ...entry, shared } : entry))
  .meta({ id: 'MatchEntry' })

const documentShape = {
  domain: domainSchema,
  name: nameSchema,
  description: text(DESCRIPTION_BYTES_MAX).default(''),
  match: z
    .array(matchEntrySchema, { error: describeType('a list of entries') })
    .min(1, { error: 'must not be empty' })
    .max(ENTRIES_MAX, { error: `has more than ${ENTRIES_MAX} entries` }),
  mode: choice(MODES).default('strict'),
  relaxedPercent: whole(1, 100).exactOptional(),
  objective: choice(OBJECTIVES).default('max-min'),
  onStoreFailure: choice(STORE_FAILURE_BEHAVIOURS).default('allow'),
  shadow: flag().default(false),
  unlimited: flag().default(false),
  replaces: z
    .array(nameSchema, { error: describeType('a list of policies') })
    .min(1, { error: 'must not be empty' })
    .max(REPLACES_MAX, { error: `has more than ${REPLACES_MAX} policies` })
    .exactOptional()
    .describe('left out of a check in which this policy governs a descriptor'),
  rebase: choice(REBASE_CHOICES)
    .default('off')
    .describe('auto: the base follows the demand of the last hour, some per cent at a time'),
  acceptSmallLimits: flag()
    .default(false)
    .describe('accept strict limits that are too small to be shared between their regions'),
  limits: z
    .array(limitDocumentSchema, { error: describeType('a list of limits') })
    .max(LIMITS_MAX, { error: `has more than ${LIMITS_MAX} limits` })
    .superRefine(refuseTwins)
    .default([]),
  tiers: tiersSchema.exactOptional(),
  overridesBy: nonEmptyText(ENTRY_KEY_BYTES_MAX).exactOptional(),
  labels: labelsSchema
    .exactOptional()
    .describe('what operators and their tools tell policies by; no check depends on them'),
}

const documentFields = z.strictObject(documentShape, { error: describeType('a JSON object') })

/** A policy as an operator writes it. */
export const policyDocumentSchema = documentFields
  .superRefine(requireWhole)
  .meta({ id: 'PolicyDocument' })
/** With every default said. */
export type PolicyDocument = z.output<typeof policyDocumentSchema>
/** As it may be written, defaults left out. */
export type PolicyInput = z.input<typeof policyDocumentSchema> & {
  limits: z.input<typeof limitDocumentSchema>[]
}
export type LimitDocument = PolicyDocument['limits'][number]

/** The body of a PUT: domain and name may be left to the path, and must be those of the path when given. */
export const policyPutSchema = z
  .strictObject(
    {
      ...documentShape,
      domain: domainSchema.exactOptional(),
      name: nameSchema.exactOptional(),
    },
    { error: describeType('a JSON object') },
  )
  .superRefine(requireWhole)
  .meta({ id: 'PolicyPut' })

type Checked = Omit<z.output<typeof documentFields>, 'domain' | 'name'> & {
  readonly name?: string
}

/** What one field cannot tell: whether the parts of the document fit together. */
function requireWhole(document: Checked, context: z.RefinementCtx): void {
  // Of a field that is wrong anyway nothing more is said.
  const misfits =
    context.issues.length > 0
      ? []
      : [...misfitsOf(document), ...shardMisfits(document), ...tierMisfits(document)]
  for (const { path, message } of misfits) {
    context.addIssue({ code: 'custom', path: [...path], message })
  }
}

interface Misfit {
  readonly path: readonly PropertyKey[]
  readonly message: string
}

function misfitsOf(document: Checked): readonly Misfit[] {
  const { name, limits, unlimited, mode, relaxedPercent, replaces = [] } = document
  const misfits: Misfit[] = []
  if (name !== undefined && replaces.includes(name)) {
    misfits.push({ path: ['replaces'], message: 'names the policy itself' })
  }
  const isEmpty = limits.length === 0
  if (isEmpty && !unlimited) misfits.push({ path: ['limits'], message: 'must not be empty' })
  if (!isEmpty && unlimited) {
    misfits.push({ path: ['limits'], message: 'must be left out of an unlimited policy' })
  }
  const isRelaxed = mode === 'relaxed'
  if (isRelaxed !== (relaxedPercent !== undefined)) {
    const message = isRelaxed ? 'is missing' : `is not for mode ${mode}; leave it out`
    misfits.push({ path: ['relaxedPercent'], message })
  }
  return mode === 'eventual' ? [...misfits, ...limits.flatMap(misfitsOfEstimate)] : misfits
}

/** Regions tell each other what they admitted in a window; a bucket has none, and neither has what slides. */
function misfitsOfEstimate(limit: Checked['limits'][number], index: number): readonly Misfit[] {
  const path = ['limits', index] as const
  if (limit.algorithm !== 'fixed_window') {
    const message = `"${limit.algorithm}" has no window that regions could count together: mode "eventual" takes "fixed_window" only`
    return [{ path: [...path, 'algorithm'], message }]
  }
  if (limit.calendar === undefined) return []
  const message = 'is not for mode "eventual": give windowMs instead'
  return [{ path: [...path, 'calendar'], message }]
}

function tierMisfits({ tiers = {}, limits, mode, match, overridesBy }: Checked): readonly Misfit[] {
  const misfits: Misfit[] = Object.entries(tiers).flatMap(([tier, numbers]) =>
    numbersProblems(numbers, limits, mode).map(({ path, message }) => ({
      path: ['tiers', tier, ...path],
      message,
    })),
  )
  const tenant = match.find(({ key }) => key === overridesBy)
  if (overridesBy !== undefined && tenant === undefined) {
    misfits.push({ path: ['overridesBy'], message: 'is not a key of the match' })
  }
  if (tenant?.shared === true) {
    misfits.push({ path: ['overridesBy'], message: 'names an entry whose values count together' })
  }
  return misfits
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
