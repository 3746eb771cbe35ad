import type { FastifyInstance } from 'fastify'
import { invalidInput } from '../../shared/protocol/zod-problems.ts'

/** What is no text to Postgres: the character of code 0, and halves of pairs, which no UTF-8 can hold. */
const UNSTORABLE = /[\0\p{Surrogate}]/u

interface Part {
  readonly field: string
  readonly value: unknown
}

/** Refuses requests with text that could not be stored or asked for, wherever it is. Call it before routes are added. */
export function refuseUnstorableText(app: FastifyInstance): void {
  app.addHook('preValidation', async (req) => {
    for (const value of [req.params, req.query, req.body]) {
      const field = unstorableField(value)
      if (field === null) continue
      const message = 'holds a character that is no text: code 0, or half of a surrogate pair'
      throw invalidInput([{ field, message, fix: 'remove it' }])
    }
  })
}

/** Name of the first field with such text; null when there is none. Without recursion: bodies may be nested deeply. */
function unstorableField(root: unknown): string | null {
  const left: Part[] = [{ field: 'body', value: root }]
  for (let part = left.pop(); part !== undefined; part = left.pop()) {
    if (isUnstorable(part.value)) return part.field
    left.push(...partsOf(part))
  }
  return null
}

function isUnstorable(value: unknown): boolean {
  if (typeof value === 'string') return UNSTORABLE.test(value)
  const names = typeof value === 'object' && value !== null ? Object.keys(value) : []
  return names.some((name) => UNSTORABLE.test(name))
}

function partsOf({ field, value }: Part): readonly Part[] {
  if (typeof value !== 'object' || value === null) return []
  return Object.entries(value).map(([name, one]) => ({
    field: Array.isArray(value) ? field : name,
    value: one,
  }))
}
