/**
 * What a region tells admin of the policies that it applies, each second and on each change.
 *
 * One JSON message that stands alone: any of them may be lost, late or repeated. A refusal of a policy version travels
 * in it, so that "saved" is never taken for "applied".
 */
import { z } from 'zod'
import type { RegionReport } from '../core/rollout.ts'
import { REGION_PATTERN } from './subjects.ts'

export const ROLLOUT_VERSION = 1

/** Most enforcers of one message; more are told as a number. */
const ENFORCERS_MAX = 500

/** Reasons are for people; what is longer is cut off. */
export const REASON_CHARS_MAX = 300

const whole = z.number().int().min(0)
const time = z.number().min(0).nullable()
const text = z.string().max(REASON_CHARS_MAX)
const refusal = z.object({ revision: whole, reason: text }).nullable()

const messageSchema = z.object({
  v: z.literal(ROLLOUT_VERSION),
  from: z.string().regex(REGION_PATTERN),
  revision: whole,
  sinceMs: time,
  heard: whole,
  refused: refusal,
  waitsFor: text.nullable(),
  enforcers: z
    .array(
      z.object({
        id: text,
        name: text,
        version: text.optional(),
        revision: whole,
        sinceMs: time,
        refused: refusal,
      }),
    )
    .max(ENFORCERS_MAX),
  unlisted: whole,
})

export function encodeReport(report: RegionReport): string {
  return JSON.stringify({ v: ROLLOUT_VERSION, ...report }, (key, value: unknown) =>
    typeof value === 'string' && key !== 'from' ? value.slice(0, REASON_CHARS_MAX) : value,
  )
}

/** Null where `payload` is no message of this version. */
export function decodeReport(payload: string): RegionReport | null {
  let message: unknown
  try {
    message = JSON.parse(payload)
  } catch {
    // What is no JSON is no message.
    return null
  }
  const parsed = messageSchema.safeParse(message)
  if (!parsed.success) return null
  const { v: _version, ...report } = parsed.data
  return report
}
