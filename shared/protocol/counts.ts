/**
 * What a region publishes of its counters of eventual policies: how much it admitted in the window that runs.
 *
 * JSON, cut into messages of bounded size that each stand alone; figures only grow within a window, so any of them may
 * be lost, late or repeated.
 */
import { z } from 'zod'
import type { CountReport } from '../core/estimate/count-table.ts'
import { TOKENS_MAX } from '../core/units.ts'
import { REGION_PATTERN } from './subjects.ts'

export const COUNTS_VERSION = 1

/** Counters of one message: well under what NATS carries, whatever their names. */
export const COUNTS_PER_MESSAGE = 1_000

const whole = z.number().int().min(0)

const messageSchema = z.object({
  v: z.literal(COUNTS_VERSION),
  from: z.string().regex(REGION_PATTERN),
  incarnation: whole,
  counts: z
    .array(z.tuple([z.string().max(512), whole, whole.max(TOKENS_MAX)]))
    .max(COUNTS_PER_MESSAGE),
})

export function encodeCounts({ from, incarnation, counts }: CountReport): readonly string[] {
  return Array.from({ length: Math.ceil(counts.length / COUNTS_PER_MESSAGE) }, (_, index) => {
    const part = counts.slice(index * COUNTS_PER_MESSAGE, (index + 1) * COUNTS_PER_MESSAGE)
    return JSON.stringify({
      v: COUNTS_VERSION,
      from,
      incarnation,
      counts: part.map(({ id, startMs, used }) => [id, startMs, used]),
    })
  })
}

/** Null where `payload` is no message of this version. */
export function decodeCounts(payload: string): CountReport | null {
  let message: unknown
  try {
    message = JSON.parse(payload)
  } catch {
    // What is no JSON is no message.
    return null
  }
  const parsed = messageSchema.safeParse(message)
  if (!parsed.success) return null
  const { from, incarnation, counts } = parsed.data
  return { from, incarnation, counts: counts.map(([id, startMs, used]) => ({ id, startMs, used })) }
}
