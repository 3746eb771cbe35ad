/** Labels of policies: short texts by which operators and their tools tell whose a policy is. */
import { z } from 'zod'
import { describeType, shortened } from './policy-fields.ts'

/** Enough for an owner, a source and a stage; what needs more is a description. */
export const LABELS_MAX = 32

const KEY_PATTERN = /^[A-Za-z0-9][A-Za-z0-9._/-]{0,62}$/
const VALUE_PATTERN = /^[A-Za-z0-9._-]{0,63}$/

export const LABELS_FIX = `give at most ${LABELS_MAX} such as {"team":"search"}: keys and values of letters, digits, dots, underscores and hyphens, at most 63 each`

export const labelsSchema = z
  .record(
    z.string().regex(KEY_PATTERN, {
      error: (issue) => `"${shortened(issue.input)}" is not a usable label`,
    }),
    z.string({ error: describeType('a text') }).regex(VALUE_PATTERN, {
      error: (issue) => `"${shortened(issue.input)}" is not a usable value of a label`,
    }),
    { error: describeType('an object of texts') },
  )
  .refine((labels) => Object.keys(labels).length <= LABELS_MAX, {
    error: `has more than ${LABELS_MAX} labels`,
  })
export type Labels = Readonly<Record<string, string>>

/** Labels as they are written in a query or an option. */
export const labelsQuery = z
  .string()
  .refine((text) => parseLabels(text) !== null, { error: 'must be written as key=value,key=value' })
  .optional()
  .describe('only policies with all of these: key=value,key=value')

/** `team=search,stage=live` as labels; null when it is not written so. */
export function parseLabels(text: string): Labels | null {
  const pairs = text.split(',').map((pair) => pair.trim().split('='))
  if (pairs.some((pair) => pair.length !== 2)) return null
  // Zod leaves such a key out; a filter by no label at all would show everything.
  if (pairs.some(([key]) => key === '__proto__')) return null
  const labels = Object.fromEntries(pairs)
  return labelsSchema.safeParse(labels).data ?? null
}
