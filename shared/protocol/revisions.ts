/** The history of the plane as admin shows it. */
import { z } from 'zod'
import { applyReplySchema } from './apply.ts'

const whole = z.number().int()
const time = z.iso.datetime()

const head = {
  revision: whole.describe('number that the change left the plane at'),
  first: whole.describe('it took every number from this one: one for each policy that it touched'),
  at: time,
  actor: z.string(),
  reason: z.string().nullable(),
  requestId: z.string(),
  changeCount: whole,
}

const changed = { action: z.string(), kind: z.string(), id: z.string() }

export const revisionListSchema = z
  .object({
    items: z.array(
      z.object({ ...head, changes: z.array(z.object(changed)).describe('the first few') }),
    ),
    next: z.string().nullable().describe('pass as ?cursor= for the next page; null: the last'),
  })
  .meta({ id: 'RevisionList' })

export const revisionReplySchema = z
  .object({
    ...head,
    changes: z.array(z.object({ ...changed, before: z.unknown(), after: z.unknown() })),
    changesLeftOut: whole,
  })
  .meta({ id: 'Revision' })
export type RevisionReply = z.infer<typeof revisionReplySchema>

export const documentDiffSchema = z
  .object({
    kind: z.string(),
    id: z.string(),
    change: z.enum(['added', 'removed', 'changed']),
    fields: z
      .array(
        z.object({
          field: z.string(),
          before: z.unknown().optional(),
          after: z.unknown().optional(),
        }),
      )
      .describe('what differs; one without before was not there'),
    text: z
      .string()
      .describe(
        'a unified diff of both as YAML; beyond the first hundred of a plan, of the fields that differ',
      ),
  })
  .meta({ id: 'DocumentDiff' })
export type DocumentDiff = z.infer<typeof documentDiffSchema>

export const revisionDiffSchema = z
  .object({ from: whole, to: whole, items: z.array(documentDiffSchema), itemsLeftOut: whole })
  .meta({ id: 'RevisionDiff' })
export type RevisionDiff = z.infer<typeof revisionDiffSchema>

export const REASON_CHARS_MAX = 500

export const rollbackSchema = z
  .strictObject({
    reason: z
      .string()
      .max(REASON_CHARS_MAX, { error: `must have at most ${REASON_CHARS_MAX} characters` })
      .refine((text) => !text.includes('\0'), { error: 'must not hold NUL characters' })
      .exactOptional()
      .describe('why, for the history; as the header X-Change-Reason'),
  })
  .meta({ id: 'Rollback' })

export const rollbackReplySchema = applyReplySchema
  .extend({
    restored: whole.describe('revision of which the policies and overrides are in force again'),
    expired: z.array(z.string()).describe('overrides left out, since they have expired since'),
    kept: z
      .record(z.string(), whole)
      .describe('objects of other kinds that changed since and stay as they are, by kind'),
  })
  .meta({ id: 'RolledBack' })
export type RollbackReply = z.infer<typeof rollbackReplySchema>
