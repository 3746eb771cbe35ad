import type { FastifyInstance } from 'fastify'
import type { InputProblem } from '../../shared/errors.ts'
import { invalidInput } from '../../shared/protocol/zod-problems.ts'

/** What is no text to Postgres: the character of code 0, and halves of pairs, which no UTF-8 can hold. */
const UNSTORABLE = /[\0\p{Surrogate}]/u

/** Levels of a body; a policy has six. What goes deeper would overflow the stack of what writes it as JSON again. */
const DEPTH_MAX = 64

interface Part {
  readonly field: string
  readonly value: unknown
  readonly depth: number
}

/**
 * Refuses requests with text that could not be stored or asked for, wherever it is, and those that are nested beyond
 * all reason. Call it before routes are added.
 */
export function refuseUnstorableText(app: FastifyInstance): void {
  app.addHook('preValidation', async (req) => {
    for (const value of [req.params, req.query, req.body]) {
      const problem = problemIn(value)
      if (problem !== null) throw invalidInput([problem])
    }
  })
}

/** What is wrong with the first such field; null when none is. Without recursion: bodies may be nested deeply. */
function problemIn(root: unknown): InputProblem | null {
  const left: Part[] = [{ field: 'body', value: root, depth: 0 }]
  for (let part = left.pop(); part !== undefined; part = left.pop()) {
    const { field } = part
    if (isUnstorable(part.value)) {
      const message = 'holds a character that is no text: code 0, or half of a surrogate pair'
      return { field, message, fix: 'remove it' }
    }
    if (part.depth > DEPTH_MAX) {
      const message = `is nested more than ${DEPTH_MAX} levels deep`
      return { field, message, fix: 'send what the field takes; nothing has so many levels' }
    }
    left.push(...partsOf(part))
  }
  return null
}

function isUnstorable(value: unknown): boolean {
  if (typeof value === 'string') return UNSTORABLE.test(value)
  const names = typeof value === 'object' && value !== null ? Object.keys(value) : []
  return names.some((name) => UNSTORABLE.test(name))
}

function partsOf({ field, value, depth }: Part): readonly Part[] {
  if (typeof value !== 'object' || value === null) return []
  return Object.entries(value).map(([name, one]) => ({
    field: Array.isArray(value) ? field : name,
    value: one,
    depth: depth + 1,
  }))
}
