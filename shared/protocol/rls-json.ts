/** The messages of Envoy's rate limit service as proto3 JSON, for `POST /json`. */
import type { InputProblem } from '../errors.ts'
import { invalidCheck } from './check-request.ts'
import {
  type RlsDescriptor,
  type RlsOverride,
  type RlsRequest,
  type RlsResponse,
  type RlsStatus,
  UINT32_MAX,
} from './rls-messages.ts'

/** Largest value of a 64-bit addend, as far as a number can say it. */
const UINT64_MAX = 2 ** 64

const OVERRIDE_UNIT_NAMES = ['UNKNOWN', 'SECOND', 'MINUTE', 'HOUR', 'DAY', 'MONTH', 'YEAR'] as const

/**
 * The message that `body`, parsed JSON, stands for; throws QUOTA_INVALID_INPUT. Fields may be named in either case,
 * and integers may be text, as proto3 JSON allows; unknown fields are refused, as it asks.
 */
export function decodeRlsRequest(body: unknown): RlsRequest {
  const fields = fieldsOf(body, 'body', ['domain', 'descriptors', 'hitsAddend'])
  const descriptors = listOf(fields['descriptors'], 'descriptors')
  return {
    domain: textOf(fields['domain'], 'domain'),
    descriptors: descriptors.map((one, position) => decodeDescriptor(one, position)),
    hits_addend: integerOf(fields['hitsAddend'] ?? 0, 'hitsAddend', UINT32_MAX),
  }
}

/** The JSON of a response; fields with their usual value are left out. */
export function encodeRlsResponse(response: RlsResponse): string {
  return JSON.stringify({
    overallCode: response.overall_code,
    statuses: response.statuses.map(encodeStatus),
    ...(response.response_headers_to_add.length > 0 && {
      responseHeadersToAdd: response.response_headers_to_add,
    }),
  })
}

function encodeStatus(status: RlsStatus) {
  const { code, current_limit: limit, limit_remaining: remaining } = status
  const until = status.duration_until_reset
  return {
    code,
    ...(limit !== null && {
      currentLimit: {
        ...(limit.requests_per_unit !== 0 && { requestsPerUnit: limit.requests_per_unit }),
        ...(limit.unit !== 'UNKNOWN' && { unit: limit.unit }),
        name: limit.name,
      },
    }),
    ...(remaining !== 0 && { limitRemaining: remaining }),
    ...(until !== null && { durationUntilReset: `${until.seconds}s` }),
  }
}

function decodeDescriptor(value: unknown, position: number): RlsDescriptor {
  const field = `descriptors[${position}]`
  const fields = fieldsOf(value, field, ['entries', 'limit', 'hitsAddend'])
  const entries = listOf(fields['entries'], `${field}.entries`)
  const addend = fields['hitsAddend'] ?? null
  return {
    entries: entries.map((entry, step) => {
      const path = `${field}.entries[${step}]`
      const { key, value: text } = fieldsOf(entry, path, ['key', 'value'])
      return { key: textOf(key, `${path}.key`), value: textOf(text, `${path}.value`) }
    }),
    limit: decodeOverride(fields['limit'] ?? null, `${field}.limit`),
    hits_addend:
      addend === null ? null : { value: integerOf(addend, `${field}.hitsAddend`, UINT64_MAX) },
  }
}

function decodeOverride(value: unknown, field: string): RlsOverride | null {
  if (value === null) return null
  const { requestsPerUnit, unit } = fieldsOf(value, field, ['requestsPerUnit', 'unit'])
  return {
    requests_per_unit: integerOf(requestsPerUnit ?? 0, `${field}.requestsPerUnit`, UINT32_MAX),
    unit: typeof unit === 'number' ? (OVERRIDE_UNIT_NAMES[unit] ?? unit) : String(unit),
  }
}

/** The fields of an object by their names in camel case. */
function fieldsOf(
  value: unknown,
  field: string,
  known: readonly string[],
): Readonly<Record<string, unknown>> {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw refuse({ field, message: 'must be an object', fix: `send {${known.join(', ')}}` })
  }
  const fields: Record<string, unknown> = {}
  for (const [name, one] of Object.entries(value)) {
    const camel = name.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase())
    if (!known.includes(camel)) {
      const fix = `known here: ${known.join(', ')}`
      throw refuse({ field: `${field}.${name}`, message: 'is not a known field', fix })
    }
    fields[camel] = one
  }
  return fields
}

function listOf(value: unknown, field: string): readonly unknown[] {
  if (value === undefined || value === null) return []
  if (Array.isArray(value)) return value
  throw refuse({ field, message: 'must be an array', fix: 'send a JSON array' })
}

function textOf(value: unknown, field: string): string {
  if (value === undefined || value === null) return ''
  if (typeof value === 'string') return value
  throw refuse({ field, message: 'must be a string', fix: 'send a JSON string' })
}

function integerOf(value: unknown, field: string, max: number): number {
  const isDigits = typeof value === 'string' && /^\d{1,20}$/.test(value)
  const number = typeof value === 'number' || isDigits ? Number(value) : Number.NaN
  if (Number.isInteger(number) && number >= 0 && number <= max) return number
  const fix = `send a whole number from 0 to ${max}`
  throw refuse({ field, message: 'must be a whole number in range', fix })
}

function refuse(problem: InputProblem): Error {
  return invalidCheck([problem])
}
