/** What a sync daemon tells admin of itself and of its servers, for `quotaplane doctor`. */
import { z } from 'zod'
import { REGIONS_MAX } from '../core/units.ts'
import { REGION_PATTERN } from './subjects.ts'

export const FACTS_VERSION = 1

/** Facts are no more than this, whoever sends them. */
const FACTS_BYTES_MAX = 65_536

const shortText = z.string().max(200)
const whole = z.number().int().min(0)

export const factsSchema = z.object({
  v: z.literal(FACTS_VERSION),
  from: z.string().regex(REGION_PATTERN),
  /** Of the process; a leader and its standby differ. */
  daemon: shortText,
  version: shortText,
  isLeading: z.boolean(),
  sentAtMs: whole,
  /** Null while Redis does not answer. A figure that it may not tell is null. */
  redis: z
    .object({
      version: shortText,
      role: shortText,
      /** By its own clock, when the facts were sent. */
      timeMs: z.number(),
      maxmemoryPolicy: shortText.nullable(),
      maxmemoryBytes: whole.nullable(),
      usedBytes: whole.nullable(),
      evictedKeys: whole.nullable(),
      isPersistent: z.boolean().nullable(),
    })
    .nullable(),
  natsVersion: shortText.nullable(),
  /** Age of the newest record of each peer that was heard. */
  peers: z
    .array(z.object({ region: z.string().regex(REGION_PATTERN), ageMs: whole }))
    .max(REGIONS_MAX),
  overAdmitted: z.number().min(0),
  /** Breaches that the self-audit of the ledger counted. */
  alarms: whole,
})
export type SyncFacts = z.infer<typeof factsSchema>

export function encodeFacts(facts: SyncFacts): string {
  return JSON.stringify(facts)
}

/** Null for what is no facts of this version. */
export function decodeFacts(text: string): SyncFacts | null {
  if (text.length > FACTS_BYTES_MAX) return null
  try {
    const parsed = factsSchema.safeParse(JSON.parse(text))
    return parsed.success ? parsed.data : null
  } catch {
    return null // Not JSON.
  }
}
