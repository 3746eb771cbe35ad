/**
 * What is wrong with a field, in words for who sent it. A schema that has better words of its own keeps them: these
 * stand in for those of the schema library, which speak of its types and not of what to write instead.
 */
import type { z } from 'zod'
import { quoted, shortened } from './policy-fields.ts'

/** What the library calls them, and what people do. */
const TYPES: Readonly<Record<string, string>> = {
  string: 'a text',
  number: 'a number',
  int: 'a whole number',
  boolean: 'true or false',
  object: 'a JSON object',
  record: 'a JSON object',
  array: 'a list',
  null: 'null',
  date: 'a time',
}

/** To be given to each parsing of what comes from outside: `schema.safeParse(input, { error: plainWords })`. */
export function plainWords(issue: z.core.$ZodRawIssue): string {
  const { input } = issue
  const given = isSecret(issue) ? '' : shown(input)
  const not = given === '' ? '' : `, not ${given}`
  if (input === undefined && issue.code !== 'unrecognized_keys') return 'is missing'
  switch (issue.code) {
    case 'invalid_type':
      return `must be ${TYPES[issue.expected] ?? issue.expected}${not}`
    case 'invalid_value':
      return `must be ${wordsOf(issue.values)}${not}`
    case 'too_small':
      return boundOf(issue.origin, 'least', Number(issue.minimum))
    case 'too_big':
      return boundOf(issue.origin, 'most', Number(issue.maximum))
    case 'not_multiple_of':
      return `must be a multiple of ${issue.divisor}${not}`
    case 'invalid_format':
      return `${given} is not written as it must be`.trim()
    case 'invalid_union':
      return `${given} is nothing that can stand here`.trim()
    default:
      return `${given} is not usable`.trim()
  }
}

/** Of a field that holds one nothing is repeated, whatever it is instead. */
function isSecret({ path = [] }: z.core.$ZodRawIssue): boolean {
  return path.some((name) => /token|secret|password/i.test(String(name)))
}

function wordsOf(values: readonly z.core.util.Primitive[]): string {
  const [first] = values
  if (values.length === 1) return JSON.stringify(first) ?? String(first)
  return `one of ${quoted(values.map(String))}`
}

const COUNTED: Readonly<Record<string, string>> = { string: 'characters', array: 'entries' }

function boundOf(origin: string, side: 'least' | 'most', bound: number): string {
  const counted = COUNTED[origin]
  if (counted === undefined) return `must be at ${side} ${bound}`
  if (side === 'least' && bound === 1) return 'must not be empty'
  return `must have at ${side} ${bound} ${counted}`
}

function shown(input: unknown): string {
  return shortened(JSON.stringify(input) ?? String(input))
}
