/** What a limit is called in header fields, problem documents and gRPC; worked out once per change of its policy. */
import type { RegionLimit, RegionPolicy } from '../core/policy.ts'

export interface LimitWords {
  /** The policy's name, and the limit's after a slash where the policy has several. */
  readonly label: string
  /** `label` as a string of a structured field, quotes included. */
  readonly quotedLabel: string
  /** The limit's item of `RateLimit-Policy`. */
  readonly policyItem: string
  /** Such as `100 requests/minute`. */
  readonly quota: string
  readonly capacity: number
}

/** Largest integer of a structured field (RFC 9651). */
export const FIELD_INTEGER_MAX = 999_999_999_999_999

const UNITS: readonly (readonly [ms: number, name: string])[] = [
  [604_800_000, 'week'],
  [86_400_000, 'day'],
  [3_600_000, 'hour'],
  [60_000, 'minute'],
  [1_000, 'second'],
]

/** What a structured field's string may hold, its escapes aside. */
const NOT_PRINTABLE = /[^ -~]/gu

export function limitWords(policy: RegionPolicy, limit: RegionLimit): LimitWords {
  const label = policy.limits.length === 1 ? policy.name : `${policy.name}/${limit.name}`
  const quotedLabel = quote(label)
  const { capacity, windowMs } = limit
  // A window of parts of a second cannot be said in whole ones, and rounding would tell another rate.
  const window = windowMs % 1_000 === 0 ? `;w=${windowMs / 1_000}` : ''
  return {
    label,
    quotedLabel,
    policyItem: `${quotedLabel};q=${fieldInteger(capacity)}${window}`,
    quota: `${capacity} ${capacity === 1 ? 'request' : 'requests'}/${windowName(windowMs)}`,
    capacity,
  }
}

/** `number` as a structured field can carry it. */
export function fieldInteger(number: number): number {
  return Math.min(number, FIELD_INTEGER_MAX)
}

/** A structured field's string. Names that admin accepts need no escape; what else Redis may hold stays valid. */
function quote(text: string): string {
  const printable = text.replace(NOT_PRINTABLE, (char) =>
    encodeURIComponent(Buffer.from(char).toString()),
  )
  return `"${printable.replace(/["\\]/g, '\\$&')}"`
}

function windowName(windowMs: number): string {
  for (const [ms, name] of UNITS) {
    if (windowMs % ms !== 0) continue
    return windowMs === ms ? name : `${windowMs / ms} ${name}s`
  }
  return `${windowMs} ms`
}
