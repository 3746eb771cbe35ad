/** Many policies at once, and domains: what is sent to be applied, and what became of each. */
import { z } from 'zod'
import { DOMAIN_FIXES, DOMAINS_APPLIED_MAX, domainDocumentSchema } from './domains.ts'
import { policyDocumentSchema } from './policy.ts'
import { labelsSchema } from './policy-labels.ts'
import { OVERRIDES_MAX, overridePutSchema, tenantValueSchema } from './policy-override.ts'
import type { Fixes } from './zod-problems.ts'

/** As many policies as a plane is made for; all of them are written well within the time that its lock may be held. */
export const DOCUMENTS_MAX = 10_000

export const APPLY_FIXES: Fixes = {
  documents: `give at most ${DOCUMENTS_MAX} policies`,
  domains: DOMAIN_FIXES['domains'] ?? '',
  prune: 'give labels such as {"labels":{"team":"search"}}, or leave it out',
  ifMatch: 'give the ETag of a GET as it is, quotes included, or leave it out',
  overrides: `give at most ${OVERRIDES_MAX} overrides, or leave it out to keep those that there are`,
}

export const applyDocumentSchema = policyDocumentSchema
  .safeExtend({
    ifMatch: z
      .string({ error: 'must be an entity tag' })
      .exactOptional()
      .describe('ETag of the state that the document is based on; absent: whatever there is'),
    overrides: z
      .array(overridePutSchema.safeExtend({ value: tenantValueSchema }))
      .max(OVERRIDES_MAX, { error: `has more than ${OVERRIDES_MAX} overrides` })
      .exactOptional()
      .describe('all that the policy is to have; absent: those that it has'),
  })
  .meta({ id: 'ApplyDocument' })
export type ApplyDocument = z.output<typeof applyDocumentSchema>

export const applySchema = z
  .strictObject(
    {
      documents: z
        .array(applyDocumentSchema, { error: 'must be a list of policies' })
        .max(DOCUMENTS_MAX, { error: `has more than ${DOCUMENTS_MAX} policies` })
        .default([]),
      domains: z
        .array(domainDocumentSchema, { error: 'must be a list of domains' })
        .max(DOMAINS_APPLIED_MAX, { error: `has more than ${DOMAINS_APPLIED_MAX} domains` })
        .default([])
        .describe('what is said of domains; one that is not named stays as it is'),
      prune: z
        .strictObject({
          labels: labelsSchema.refine((labels) => Object.keys(labels).length > 0, {
            error: 'must not be empty: that would be every policy',
          }),
        })
        .exactOptional()
        .describe(
          'remove policies with all of these labels that are not among the documents, and domains with them of which none speaks; 409 where one has policies that stay. Overrides have no labels: a document with overrides names all that its policy is to have',
        ),
    },
    { error: 'must be a JSON object' },
  )
  .meta({ id: 'Apply' })
export type ApplyRequest = z.output<typeof applySchema>

const problemSchema = z.object({
  field: z.string(),
  message: z.string(),
  fix: z.string().optional(),
})

export const applyReplySchema = z
  .object({
    revision: z.number().int().nullable().describe('of all that was changed; null: nothing was'),
    domains: z.array(
      z.object({
        domain: z.string(),
        outcome: z.enum(['created', 'updated', 'unchanged', 'deleted']),
        revision: z.number().int().nullable().describe('the ETag of the domain; null: deleted'),
      }),
    ),
    items: z.array(
      z.object({
        domain: z.string(),
        name: z.string(),
        outcome: z.enum(['created', 'updated', 'unchanged', 'deleted']),
        revision: z.number().int().nullable().describe('the ETag of the policy; null: deleted'),
        warnings: z.array(problemSchema),
      }),
    ),
  })
  .meta({ id: 'Applied' })
export type ApplyReply = z.infer<typeof applyReplySchema>
