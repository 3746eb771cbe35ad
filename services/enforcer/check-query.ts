/** The query parameters that choose the form of an answer. */
import type { InputProblem } from '../../shared/errors.ts'
import { invalidCheck } from '../../shared/protocol/check-request.ts'
import {
  HEADER_FAMILIES,
  type HeaderChoice,
  parseHeaderChoice,
} from '../../shared/protocol/rate-limit-headers.ts'
import type { AnswerForm } from './answer.ts'

/**
 * Parsed query strings kept. A gateway sends few different ones; what does not fit is parsed each time, so that
 * what callers send cannot fill the memory.
 */
const KEPT_MAX = 256
const KEPT_LENGTH_MAX = 1_024

/** Remembers what `parse` makes of the query string of a URL, within a bound; it throws for what is not valid. */
export function rememberQueries<T>(parse: (query: URLSearchParams) => T): (url: string) => T {
  const kept = new Map<string, T>()
  return (url) => {
    const start = url.indexOf('?')
    const text = start < 0 ? '' : url.slice(start + 1)
    const known = kept.get(text)
    if (known !== undefined) return known
    const parsed = parse(new URLSearchParams(text))
    if (kept.size < KEPT_MAX && text.length <= KEPT_LENGTH_MAX) kept.set(text, parsed)
    return parsed
  }
}

/**
 * `?deny=429` and `?headers=…`, each at most once. Anything else is refused: a misspelt parameter would let denied
 * requests pass.
 */
export function parseCheckQuery(query: URLSearchParams, headers: HeaderChoice): AnswerForm {
  refuseUnknown(query, ['deny', 'headers'])
  const deny = single(query, 'deny')
  if (deny !== null && deny !== '429') {
    throw refuse('deny', 'must be 429', 'send ?deny=429 or leave it out')
  }
  return {
    denialStatus: deny === null ? 200 : 429,
    headers: parseHeadersParameter(query, headers),
  }
}

/** The choice of `headers`, or `usual` without the parameter. */
export function parseHeadersParameter(query: URLSearchParams, usual: HeaderChoice): HeaderChoice {
  const text = single(query, 'headers')
  if (text === null) return usual
  const choice = parseHeaderChoice(text)
  if (choice !== null) return choice
  throw refuse('headers', 'names no usable choice', HEADERS_FIX)
}

const HEADERS_FIX = `send one or more of ${HEADER_FAMILIES.join(', ')}, separated by commas; x-ratelimit in one form only`

export function refuseUnknown(query: URLSearchParams, known: readonly string[]): void {
  for (const name of query.keys()) {
    if (known.includes(name)) continue
    throw refuse(name, 'is not a known parameter', `known here: ${known.join(', ')}`)
  }
}

/** The value of a parameter that may be given once; null when it is left out. */
export function single(query: URLSearchParams, name: string): string | null {
  const values = query.getAll(name)
  if (values.length > 1) throw refuse(name, 'is given more than once', 'send it once')
  return values[0] ?? null
}

export function refuse(name: string, message: string, fix: string): Error {
  const problem: InputProblem = { field: `query.${name}`, message, fix }
  return invalidCheck([problem])
}
