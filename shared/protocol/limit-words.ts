/** What a limit is called in header fields, problem documents and gRPC; worked out once per change of its policy. */
import type { RegionLimit, RegionPolicy } from '../core/policy.ts'
import { type CurrentLimit, type RlsUnit, UINT32_MAX } from './rls-messages.ts'

export interface LimitWords {
  /** The policy's name. */
  readonly policy: string
  /** The policy's name, and the limit's after a slash where the policy has several. */
  readonly label: string
  /** `label` as a string of a structured field, quotes included. */
  readonly quotedLabel: string
  /** The limit's item of `RateLimit-Policy`. */
  readonly policyItem: string
  /** Such as `100 requests/minute`. */
  readonly quota: string
  readonly capacity: number
  /** As Envoy is told it. */
  readonly current: CurrentLimit
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

const RLS_UNITS: Readonly<Record<string, RlsUnit>> = {
  second: 'SECOND',
  minute: 'MINUTE',
  hour: 'HOUR',
  day: 'DAY',
  week: 'WEEK',
  month: 'MONTH',
}

/** What a structured field's string may hold, its escapes aside. */
const NOT_PRINTABLE = /[^ -~]/gu

export function limitWords(policy: RegionPolicy, limit: RegionLimit): LimitWords {
  const others = policy.limits.filter((one) => one.candidateOf === null && one.id !== limit.id)
  const label = others.length === 0 ? policy.name : `${policy.name}/${limit.name}`
  const quotedLabel = quote(label)
  // Callers are told the limit, not what its mode may let through beyond it.
  const capacity = limit.nominal ?? limit.capacity
  return {
    policy: policy.name,
    label,
    quotedLabel,
    policyItem: `${quotedLabel};q=${fieldInteger(capacity)}${windowParameter(limit)}`,
    quota: quotaOf({ ...limit, capacity }),
    capacity,
    current: {
      requests_per_unit: Math.min(capacity, UINT32_MAX),
      unit: unitOf(limit),
      name: label,
    },
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

/** A window of parts of a second cannot be said in whole ones, and a month has no one length. */
function windowParameter({ algorithm, calendar, windowMs }: RegionLimit): string {
  if (algorithm === 'concurrency') return ';qu="concurrent-requests"'
  return calendar === null && windowMs % 1_000 === 0 ? `;w=${windowMs / 1_000}` : ''
}

function quotaOf({ algorithm, calendar, windowMs, capacity }: RegionLimit): string {
  const requests = capacity === 1 ? 'request' : 'requests'
  if (algorithm === 'concurrency') return `${capacity} concurrent ${requests}`
  return `${capacity} ${requests}/${calendar?.unit ?? windowName(windowMs)}`
}

/** A window that is no unit is said as UNKNOWN to gateways: a converted number would be untrue. */
function unitOf({ algorithm, calendar, windowMs }: RegionLimit): RlsUnit {
  if (algorithm === 'concurrency') return 'UNKNOWN'
  return RLS_UNITS[calendar?.unit ?? windowName(windowMs)] ?? 'UNKNOWN'
}

function windowName(windowMs: number): string {
  for (const [ms, name] of UNITS) {
    if (windowMs % ms !== 0) continue
    return windowMs === ms ? name : `${windowMs / ms} ${name}s`
  }
  return `${windowMs} ms`
}
