/**
 * How a region is given tokens of long windows: it asks admin, over NATS, and admin's transaction decides.
 *
 * Any request or answer may be lost, late or repeated. A region that got no answer asks the same question again, by
 * its name, and gets the answer that it missed. Any other question is given more, and its answer says what the region
 * had before it, so nothing is ever counted twice.
 */
import { z } from 'zod'
import { TOKENS_MAX } from '../core/units.ts'
import { POLICY_MESSAGES_VERSION } from './policy-messages.ts'

/** Most windows of one request. */
export const STOCK_WINDOWS_MAX = 256

/** Most counters of one request: few enough that their rows are locked for milliseconds. */
export const STOCK_ASKS_MAX = 256

/** Names of questions are UUIDs. */
const QUESTION_LENGTH_MAX = 64

/** A counter's name is shorter; see COUNTER_NAME_LENGTH_MAX. Bytes. */
const COUNTER_BYTES_MAX = 512

const version = z.literal(POLICY_MESSAGES_VERSION)
const whole = z.number().int().min(0)
const tokens = whole.max(TOKENS_MAX)
const limit = { limitId: whole, usageEpoch: whole }

/** The window of a limit that `atMs` lies in: give its edges and this region's floor. */
const windowAskSchema = z.object({ ...limit, atMs: whole })
export type WindowAsk = z.infer<typeof windowAskSchema>

/** At least `want` more tokens of a counter, if there are as many. */
const stockAskSchema = z.object({
  ...limit,
  startMs: whole,
  counter: z.string().refine((name) => Buffer.byteLength(name) <= COUNTER_BYTES_MAX),
  want: tokens,
})
export type StockAsk = z.infer<typeof stockAskSchema>

export const stockRequestSchema = z.object({
  v: version,
  /** Names the question; the same only when it is asked again for want of an answer. */
  question: z.string().min(1).max(QUESTION_LENGTH_MAX),
  windows: z.array(windowAskSchema).max(STOCK_WINDOWS_MAX),
  asks: z.array(stockAskSchema).max(STOCK_ASKS_MAX),
})
export type StockRequest = z.infer<typeof stockRequestSchema>

const openedSchema = z.object({ ...limit, startMs: whole, endMs: whole, floor: tokens })
export type Opened = z.infer<typeof openedSchema>

/** What the region had of the counter before this answer, and what it has with it. */
const allottedSchema = z.object({
  ...limit,
  startMs: whole,
  counter: z.string(),
  from: tokens,
  to: tokens,
})
export type Allotted = z.infer<typeof allottedSchema>

/** What was asked for and is not answered here cannot be had: the limit is gone, or the window over. */
export const stockReplySchema = z.object({
  v: version,
  windows: z.array(openedSchema).max(STOCK_WINDOWS_MAX),
  allotted: z.array(allottedSchema).max(STOCK_ASKS_MAX),
})
export type StockReply = z.infer<typeof stockReplySchema>
