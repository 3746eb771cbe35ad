/** How to mend what a request holds, by the name of the field; each refusal of the API says it. */
import { z } from 'zod'
import { APPLY_FIXES, applySchema } from '../../../shared/protocol/apply.ts'
import { DOMAIN_FIXES, domainPutSchema } from '../../../shared/protocol/domains.ts'
import { EMERGENCY_FIXES, emergencyPutSchema } from '../../../shared/protocol/emergency.ts'
import { NAME_FIX, POLICY_FIXES } from '../../../shared/protocol/policy.ts'
import { TOKEN_FIXES } from '../../../shared/protocol/tokens.ts'
import type { Fixes } from '../../../shared/protocol/zod-problems.ts'
import { PAGE_MAX } from './paging.ts'

const TIME_FIX = 'give a time such as 2027-01-31T00:00:00Z, or leave it out'

/** What is called so on most routes. */
const FIXES: Fixes = {
  ...POLICY_FIXES,
  ...APPLY_FIXES,
  dryRun: 'give true or false, or leave it out',
  ...TOKEN_FIXES,
  ...Object.fromEntries(['since', 'until', 'from', 'to'].map((name) => [name, TIME_FIX])),
  id: NAME_FIX,
  policy: 'name a policy, such as per-tenant of the domain api',
  region: 'name a registered region, as GET /v1/regions lists them, or leave it out',
  limit: `give a whole number from 1 to ${PAGE_MAX}, or leave it out`,
  cursor: 'give the next of an earlier page as it is, or leave it out to begin with the first',
  search: 'give one shorter text, or leave it out',
  reason: 'say why, in at most 500 characters',
  'x-change-reason': 'say why, in at most 500 characters',
  'last-event-id': 'send the id of the last event that came as it is, or leave it out',
  body: 'send one JSON object',
}

const OWN = new WeakMap<object, Fixes>()

/** The same schema, whose fields are called as those of others and are mended otherwise. */
export function mendedBy<Schema extends z.ZodType>(schema: Schema, fixes: Fixes): Schema {
  OWN.set(schema, fixes)
  return schema
}

mendedBy(emergencyPutSchema, EMERGENCY_FIXES)
mendedBy(domainPutSchema, DOMAIN_FIXES)
mendedBy(applySchema, APPLY_FIXES)

/** How to mend the fields of a schema, be it one that may be left out. */
export function fixesOf(schema: object): Fixes {
  const inner =
    schema instanceof z.ZodOptional || schema instanceof z.ZodNullable ? schema.unwrap() : null
  return { ...(inner === null ? FIXES : fixesOf(inner)), ...OWN.get(schema) }
}
