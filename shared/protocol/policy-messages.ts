/**
 * How policy reaches the regions: admin says the newest revision, each sync daemon asks for what changed.
 *
 * A daemon that has missed any number of messages catches up with one series of requests. All payloads are
 * JSON with a version; one that is newer is refused and not guessed at.
 */
import { z } from 'zod'
import { CALENDAR_UNITS } from '../core/calendar.ts'
import type { Membership } from '../core/ledger/types.ts'
import {
  ALGORITHMS,
  LEASE_CHOICES,
  MODES,
  OBJECTIVES,
  type Policy,
  STORE_FAILURE_BEHAVIOURS,
} from '../core/policy.ts'
import { POOL_UNITS, REGIONS_MAX, TOKENS_MAX } from '../core/units.ts'
import { QuotaError } from '../errors.ts'
import { DOMAIN_PATTERN, NAME_PATTERN } from './policy.ts'

export const POLICY_MESSAGES_VERSION = 1

/**
 * What a region's daemon knows to be said of a policy. 1: all up to overrides; 2: emergency actions and shards too.
 *
 * Raised with every field that an earlier daemon would leave out without a word. It tells its own with each question,
 * and admin tells it no policy that is beyond it, so that regions may be upgraded one by one and before or after admin.
 */
export const PLANE_POLICY_FORMAT = 2

/** What of this policy is beyond `format`; null where nothing is. */
export function beyondFormat(
  { emergency = [], limits }: Pick<Policy, 'emergency' | 'limits'>,
  format: number,
): string | null {
  if (format >= 2) return null
  if (emergency.length > 0) return 'an emergency action'
  return limits.some(({ shards }) => shards > 1) ? 'a limit of several shards' : null
}

/**
 * Largest payload of a reply in bytes. NATS refuses messages above `max_payload`, 1 MB by default; half of it
 * leaves room for a lowered limit. One policy of the largest size fits, so a page always gets further.
 */
export const CHANGES_BYTES_MAX = 512 * 1024

/** Most changes of one reply. */
export const CHANGES_PAGE_MAX = 1_000

/** Most former members of one reply: names that were in use within a minute, far above what operators remove. */
export const FORMER_MEMBERS_MAX = 1_000

/** Most tokens of one reply: of those with the most and longest domains, half of CHANGES_BYTES_MAX. */
export const TOKENS_PAGE_MAX = 32

const version = z.literal(POLICY_MESSAGES_VERSION)
const whole = z.number().int().min(0)
const positive = z.number().int().min(1)
const name = z.string().regex(NAME_PATTERN)
const base = z.record(name, whole.max(POOL_UNITS))

/** Differs whenever the tokens that may ask for checks do; says nothing else. */
export const tokensMarkSchema = z.string().min(1).max(128)

/**
 * On `quotaplane.v1.policy.revision`: the newest revision, each second and on each change. `tokens` is the mark of the
 * tokens for checks; an admin that knows nothing of them leaves it out.
 */
export const policyHintSchema = z.object({
  v: version,
  revision: whole,
  tokens: tokensMarkSchema.exactOptional(),
})
export type PolicyHint = z.infer<typeof policyHintSchema>

/**
 * Asks for changes after revision `since` (0: everything there is).
 *
 * `after` continues a series: the `next` of the reply before; `since` stays what it was at the start.
 */
export const changesRequestSchema = z.object({
  v: version,
  since: whole,
  after: whole.optional(),
  /** Highest PLANE_POLICY_FORMAT that the region knows. */
  format: positive.default(1),
  /** Asks for the tokens with an id after this one in place of changes: `TokensReply`. */
  tokens: z.object({ after: z.string().max(64) }).exactOptional(),
})
export type ChangesRequest = z.input<typeof changesRequestSchema>

const limitSchema = z.object({
  id: positive,
  name,
  algorithm: z.enum(ALGORITHMS),
  calendar: z.object({ unit: z.enum(CALENDAR_UNITS), timeZone: z.string() }).nullable(),
  shards: positive,
  leases: z.enum(LEASE_CHOICES),
  candidateOf: positive.nullable(),
  capacity: whole.max(TOKENS_MAX),
  windowMs: positive,
  burst: whole.max(TOKENS_MAX),
  usageEpoch: whole,
  epoch: positive,
  base,
  previousBase: base.nullable(),
  floorPercent: whole.max(100),
})

const numbersByLimit = z.record(
  z.string(),
  z.object({ capacity: whole, burst: whole.exactOptional() }),
)

const overrideSchema = z.object({
  value: z.string(),
  rule: z.discriminatedUnion('kind', [
    z.object({ kind: z.literal('tier'), tier: z.string() }),
    z.object({ kind: z.literal('numbers'), limits: numbersByLimit }),
    z.object({ kind: z.literal('unlimited') }),
    z.object({ kind: z.literal('deny') }),
  ]),
  expiresAtMs: whole.exactOptional(),
})

const emergencySchema = z.object({
  id: positive,
  effect: z.discriminatedUnion('kind', [
    z.object({ kind: z.enum(['block', 'allow']), value: z.string() }),
    z.object({ kind: z.literal('multiply'), limit: z.string(), factor: z.number().positive() }),
    z.object({ kind: z.literal('fix'), limit: z.string(), capacity: whole, burst: whole }),
    z.object({ kind: z.enum(['freeze', 'pin']), limit: z.string().nullable() }),
  ]),
  expiresAtMs: whole,
})

export const wirePolicySchema = z.object({
  id: positive,
  domain: z.string().regex(DOMAIN_PATTERN),
  name,
  description: z.string(),
  revision: positive,
  match: z.array(
    z.object({
      key: z.string(),
      value: z.string().exactOptional(),
      shared: z.boolean().exactOptional(),
    }),
  ),
  mode: z.enum(MODES),
  relaxedPercent: positive.nullable(),
  objective: z.enum(OBJECTIVES),
  onStoreFailure: z.enum(STORE_FAILURE_BEHAVIOURS),
  shadow: z.boolean(),
  unlimited: z.boolean(),
  replaces: z.array(name).exactOptional(),
  limits: z.array(limitSchema),
  tiers: z.record(z.string(), numbersByLimit).exactOptional(),
  overridesBy: z.string().exactOptional(),
  overrides: z.array(overrideSchema).exactOptional(),
  emergency: z.array(emergencySchema).exactOptional(),
}) satisfies z.ZodType<Policy>

/** A policy as it is at its newest revision, or that it was removed. */
const changeSchema = z.discriminatedUnion('kind', [
  z.object({ kind: z.literal('policy'), policy: wirePolicySchema }),
  z.object({ kind: z.literal('removed'), id: positive, revision: positive }),
])
export type PolicyChange =
  | { readonly kind: 'policy'; readonly policy: Policy }
  | { readonly kind: 'removed'; readonly id: number; readonly revision: number }

/**
 * Changes in the order of their revisions, one per policy.
 *
 * `revision` is the plane's at the time of this reply. A series is complete when `next` is null, and its
 * receiver then stands at the `revision` of that last reply: what changed while the series ran has a higher
 * revision than all before it, so a later page carries it. Applying a change twice, or an older one after a
 * newer, must change nothing: the higher revision of a policy stays.
 */
export interface ChangesReply extends Membership {
  readonly v: typeof POLICY_MESSAGES_VERSION
  readonly revision: number
  readonly changes: readonly PolicyChange[]
  readonly next: number | null
}

export const changesReplySchema = z.object({
  v: version,
  revision: whole,
  members: z.array(name).max(REGIONS_MAX),
  formerMembers: z.array(name).max(FORMER_MEMBERS_MAX),
  leastIncarnations: z.record(name, positive),
  changes: z.array(changeSchema).max(CHANGES_PAGE_MAX),
  next: whole.nullable(),
}) satisfies z.ZodType<ChangesReply>

/**
 * Asks for the next incarnation of the region that the subject names.
 *
 * The same `requestId` again gets the same answer, so that a lost reply costs nothing; a new incarnation takes
 * a new id. `atLeast`: the highest incarnation that the region knows of itself, which the answer is above.
 */
export const incarnationRequestSchema = z.object({
  v: version,
  requestId: z.string().min(1).max(128),
  atLeast: whole.default(0),
})
export type IncarnationRequest = z.input<typeof incarnationRequestSchema>

/** `first`: the region never had an incarnation before, so it owes nothing and is owed nothing. */
export const incarnationReplySchema = z.object({
  v: version,
  incarnation: positive,
  first: z.boolean(),
})
export type IncarnationReply = z.infer<typeof incarnationReplySchema>

/** What admin answers when it cannot answer the question. */
export const refusalSchema = z.object({ v: version, error: z.string() })

/** The message in `payload`; throws QUOTA_INVALID_INPUT that says why it is not one. */
export function decodeMessage<Schema extends z.ZodType>(
  schema: Schema,
  payload: string,
): z.output<Schema> {
  const message = parseJson(payload)
  const refusal = refusalSchema.safeParse(message)
  if (refusal.success) {
    throw new QuotaError('QUOTA_BUS_UNAVAILABLE', `admin refused: ${refusal.data.error}`)
  }
  const parsed = schema.safeParse(message)
  if (parsed.success) return parsed.data
  throw new QuotaError('QUOTA_INVALID_INPUT', describeFailure(message, parsed.error))
}

const versionedSchema = z.object({ v: z.number() })

function describeFailure(message: unknown, error: z.ZodError): string {
  const versioned = versionedSchema.safeParse(message)
  if (versioned.success && versioned.data.v > POLICY_MESSAGES_VERSION) {
    return `a policy message of version ${versioned.data.v} came, and this process knows ${POLICY_MESSAGES_VERSION}: upgrade it`
  }
  const [issue] = error.issues
  return `a malformed policy message came: ${issue?.path.join('.')} ${issue?.message}`
}

function parseJson(payload: string): unknown {
  try {
    return JSON.parse(payload)
  } catch (cause) {
    throw new QuotaError('QUOTA_INVALID_INPUT', 'a policy message that is not JSON came', { cause })
  }
}
