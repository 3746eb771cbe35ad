/** Domains as operators describe them: what each is for, and whose it is. No region needs to know of it. */
import { z } from 'zod'
import { domainSchema, text } from './policy-fields.ts'
import { labelsSchema } from './policy-labels.ts'
import type { Fixes } from './zod-problems.ts'

/** Who to ask and what breaks: a few sentences. */
const DESCRIPTION_BYTES_MAX = 4_000

/** More than anyone describes; a plane of ten thousand policies has some hundreds of domains. */
export const DOMAINS_APPLIED_MAX = 1_000

export const DOMAIN_FIXES: Fixes = {
  description: `give a text of at most ${DESCRIPTION_BYTES_MAX} bytes: whose it is, and who to ask`,
  domains: `give at most ${DOMAINS_APPLIED_MAX} domains such as {"domain":"api","description":"…"}, or leave it out`,
}

const said = {
  description: text(DESCRIPTION_BYTES_MAX).default(''),
  labels: labelsSchema.default({}),
}

export const domainPutSchema = z.strictObject(said).meta({ id: 'DomainPut' })

/** A domain among the documents of an apply. */
export const domainDocumentSchema = z
  .strictObject({
    domain: domainSchema,
    ...said,
    ifMatch: z
      .string({ error: 'must be an entity tag' })
      .exactOptional()
      .describe('ETag of the state that the document is based on; absent: whatever there is'),
  })
  .meta({ id: 'DomainDocument' })
export type DomainDocument = z.output<typeof domainDocumentSchema>

const whole = z.number().int()

export const domainReplySchema = z
  .object({
    domain: z.string(),
    description: z.string(),
    labels: z.record(z.string(), z.string()),
    policyCount: whole,
    revision: whole.describe('the ETag; 0: it came with a policy and was never described'),
  })
  .meta({ id: 'Domain' })
export type DomainReply = z.infer<typeof domainReplySchema>

export const domainListSchema = z
  .object({
    items: z.array(domainReplySchema),
    next: z.string().nullable().describe('pass as ?cursor= for the next page; null: the last'),
  })
  .meta({ id: 'DomainList' })
