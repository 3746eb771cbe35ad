import {
  DESCRIPTORS_MAX,
  type Descriptor,
  ENTRIES_MAX,
  ENTRY_KEY_BYTES_MAX,
  ENTRY_VALUE_BYTES_MAX,
} from '../core/descriptor.ts'
import { TOKENS_MAX } from '../core/units.ts'
import { type InputProblem, QuotaError } from '../errors.ts'

/** The body of `POST /v1/check`. `cost` 0 reads without spending; `requestId` names the check for later. */
export interface CheckRequest {
  readonly domain: string
  readonly descriptors: readonly Descriptor[]
  readonly cost: number
  readonly requestId?: string
}

/** Largest body of a check. The largest valid one is bigger; no honest descriptor set comes near it. */
export const CHECK_BODY_BYTES_MAX = 65_536

/** Same bound as an entry's key: longer than any domain that a policy may have, so that typing errors are named. */
const DOMAIN_BYTES_MAX = 256

/** Problems that are listed; a caller mends the first ones and asks again. */
const PROBLEMS_MAX = 20

/** Distinct unpaired surrogates become the same UTF-8 bytes, so two descriptors would share one counter. */
const UNPAIRED_SURROGATE = /\p{Surrogate}/u

/** Room for any trace or request id. */
export const REQUEST_ID_BYTES_MAX = 128

const REQUEST_FIELDS: readonly string[] = ['domain', 'descriptors', 'cost', 'requestId']
const DESCRIPTOR_FIELDS: readonly string[] = ['entries']
const ENTRY_FIELDS: readonly string[] = ['key', 'value']

/**
 * The check that `body`, parsed JSON, asks for; throws QUOTA_INVALID_INPUT naming every field that is wrong.
 *
 * Written by hand because it runs on each check: a valid body is only read, and returned without a copy. Field
 * paths are put together only for problems.
 */
export function parseCheckRequest(body: unknown): CheckRequest {
  const problems: InputProblem[] = []
  if (!isObject(body)) {
    throw invalidCheck([{ field: 'body', message: 'must be a JSON object', fix: FIX_BODY }])
  }
  refuseUnknown(body, REQUEST_FIELDS, (name) => problems.push(unknownField(name, REQUEST_FIELDS)))
  const { domain, descriptors, cost, requestId } = body
  const wrong = textProblem(domain, DOMAIN_BYTES_MAX)
  if (wrong !== null) problems.push({ field: 'domain', ...wrong })
  validateDescriptors(descriptors, problems)
  const costProblem = cost === undefined ? null : problemOfCost(cost)
  if (costProblem !== null) problems.push(costProblem)
  const wrongId = requestId === undefined ? null : textProblem(requestId, REQUEST_ID_BYTES_MAX)
  if (wrongId !== null) problems.push({ field: 'requestId', ...wrongId })
  if (problems.length > 0) throw invalidCheck(problems)
  // Every part was checked above; -0 becomes 0.
  const check = {
    domain: domain as string,
    descriptors: descriptors as readonly Descriptor[],
    cost: cost === undefined ? 1 : (cost as number) + 0,
  }
  return requestId === undefined ? check : { ...check, requestId: requestId as string }
}

const FIX_BODY =
  'send {"domain":"api","descriptors":[{"entries":[{"key":"tenant","value":"acme"}]}],"cost":1}'

/** A 400 for a check, with the first problem in its message. */
export function invalidCheck(problems: readonly InputProblem[]): QuotaError {
  const [first] = problems
  const more = problems.length > 1 ? ` (and ${problems.length - 1} more)` : ''
  return new QuotaError('QUOTA_INVALID_INPUT', `${first?.field} ${first?.message}${more}`, {
    problems: problems.slice(0, PROBLEMS_MAX),
  })
}

function validateDescriptors(descriptors: unknown, problems: InputProblem[]): void {
  const wrong = listProblem(descriptors, DESCRIPTORS_MAX)
  if (wrong !== null) problems.push({ field: 'descriptors', ...wrong })
  if (wrong !== null || !Array.isArray(descriptors)) return
  for (let position = 0; position < descriptors.length; position++) {
    validateDescriptor(descriptors[position], position, problems)
  }
}

function validateDescriptor(descriptor: unknown, position: number, problems: InputProblem[]): void {
  const field = `descriptors[${position}]`
  if (!isObject(descriptor)) {
    problems.push({ field, message: 'must be an object', fix: 'send {"entries":[…]}' })
    return
  }
  refuseUnknown(descriptor, DESCRIPTOR_FIELDS, (name) =>
    problems.push(unknownField(`${field}.${name}`, DESCRIPTOR_FIELDS)),
  )
  const { entries } = descriptor
  const wrong = listProblem(entries, ENTRIES_MAX)
  if (wrong !== null) problems.push({ field: `${field}.entries`, ...wrong })
  if (wrong !== null || !Array.isArray(entries)) return
  for (let step = 0; step < entries.length; step++) {
    const found = entryProblems(entries[step])
    for (const { field: name, ...problem } of found) {
      const path = `${field}.entries[${step}]`
      problems.push({ field: name === '' ? path : `${path}.${name}`, ...problem })
    }
  }
}

const NO_PROBLEMS: readonly InputProblem[] = []

/** Problems of one entry, their fields relative to it. */
function entryProblems(entry: unknown): readonly InputProblem[] {
  if (!isObject(entry)) {
    return [{ field: '', message: 'must be an object', fix: 'send {"key":"…","value":"…"}' }]
  }
  const key = textProblem(entry['key'], ENTRY_KEY_BYTES_MAX)
  const value = textProblem(entry['value'], ENTRY_VALUE_BYTES_MAX)
  const unknown: InputProblem[] = []
  refuseUnknown(entry, ENTRY_FIELDS, (name) => unknown.push(unknownField(name, ENTRY_FIELDS)))
  if (key === null && value === null && unknown.length === 0) return NO_PROBLEMS
  if (key !== null) unknown.push({ field: 'key', ...key })
  if (value !== null) unknown.push({ field: 'value', ...value })
  return unknown
}

interface Wrong {
  readonly message: string
  readonly fix: string
}

function textProblem(text: unknown, bytesMax: number): Wrong | null {
  if (typeof text !== 'string') {
    return { message: typeMessage('a string', text), fix: 'send a JSON string' }
  }
  if (text === '') return { message: 'must not be empty', fix: 'send at least one character' }
  // A UTF-16 unit takes at most three bytes, so short texts need no count.
  if (text.length * 3 > bytesMax && Buffer.byteLength(text) > bytesMax) {
    return {
      message: `must be at most ${bytesMax} bytes of UTF-8`,
      fix: 'send a hash of it instead',
    }
  }
  if (UNPAIRED_SURROGATE.test(text)) {
    return { message: 'must be valid Unicode', fix: 'send no unpaired surrogate' }
  }
  return null
}

function listProblem(list: unknown, lengthMax: number): Wrong | null {
  if (!Array.isArray(list)) {
    return { message: typeMessage('an array', list), fix: 'send a JSON array' }
  }
  if (list.length === 0) return { message: 'must not be empty', fix: 'send at least one element' }
  if (list.length > lengthMax) {
    return {
      message: `must have at most ${lengthMax} elements`,
      fix: `send 1 to ${lengthMax} elements`,
    }
  }
  return null
}

function problemOfCost(cost: unknown): InputProblem | null {
  const fix = `send a whole number from 0 to ${TOKENS_MAX}; 0 reads without spending`
  if (typeof cost !== 'number') {
    return { field: 'cost', message: typeMessage('a number', cost), fix }
  }
  if (cost < 0) return { field: 'cost', message: 'must not be negative', fix }
  if (cost > TOKENS_MAX) return { field: 'cost', message: `must be at most ${TOKENS_MAX}`, fix }
  if (!Number.isInteger(cost)) return { field: 'cost', message: 'must be a whole number', fix }
  return null
}

function unknownField(field: string, known: readonly string[]): InputProblem {
  return { field, message: 'is not a known field', fix: `known here: ${known.join(', ')}` }
}

function refuseUnknown(
  object: Readonly<Record<string, unknown>>,
  known: readonly string[],
  refuse: (name: string) => void,
): void {
  for (const name in object) if (!known.includes(name)) refuse(name)
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function typeMessage(expected: string, value: unknown): string {
  return value === undefined ? 'is missing' : `must be ${expected}, not ${kindOf(value)}`
}

function kindOf(value: unknown): string {
  if (value === null) return 'null'
  if (Array.isArray(value)) return 'an array'
  return typeof value === 'object' ? 'an object' : `a ${typeof value}`
}
