import type { FastifyInstance } from 'fastify'
import type { InputProblem } from '../../shared/errors.ts'
import { fieldOf, invalidInput } from '../../shared/protocol/zod-problems.ts'

/** What is no text to Postgres: the character of code 0, and halves of pairs, which no UTF-8 can hold. */
const UNSTORABLE = /[\0\p{Surrogate}]/u

/** Levels of a body; a policy has six. What goes deeper would overflow the stack of what writes it as JSON again. */
const DEPTH_MAX = 64

/** Names of a path that a refusal shows: those of the deepest field that there is, and some more. */
const NAMES_SHOWN_MAX = 8

interface Part {
  /** What holds it; null: it is the whole. */
  readonly holder: Part | null
  readonly name: string | number
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
  const left: Part[] = [{ holder: null, name: 'body', value: root, depth: 0 }]
  for (let part = left.pop(); part !== undefined; part = left.pop()) {
    if (isUnstorable(part.value)) {
      const message = 'holds a character that is no text: code 0, or half of a surrogate pair'
      return { field: placeOf(part), message, fix: 'remove it' }
    }
    if (part.depth > DEPTH_MAX) {
      const message = `is nested more than ${DEPTH_MAX} levels deep`
      const field = placeOf(part)
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

function partsOf(holder: Part): readonly Part[] {
  const { value, depth } = holder
  if (typeof value !== 'object' || value === null) return []
  return Object.entries(value).map(([name, one]) => ({
    holder,
    name: Array.isArray(value) ? Number(name) : name,
    value: one,
    depth: depth + 1,
  }))
}

/** The path to a part, cut where it leads deeper than any field. */
function placeOf(part: Part): string {
  const names: (string | number)[] = []
  for (let at = part; at.holder !== null; at = at.holder) names.unshift(at.name)
  return names.length === 0 ? 'body' : fieldOf(names.slice(0, NAMES_SHOWN_MAX))
}
