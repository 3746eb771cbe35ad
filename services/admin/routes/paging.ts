/** Pages of lists: how one is asked for, and how an answer says where the next begins. */
import { z } from 'zod'
import { domainSchema, nameSchema } from '../../../shared/protocol/policy.ts'
import { invalidInput } from '../../../shared/protocol/zod-problems.ts'
import { decimal } from './decimal.ts'

const PAGE_DEFAULT = 50

/** A page of the largest policies is some megabytes. */
export const PAGE_MAX = 100

const CURSOR_CHARS_MAX = 1_000

export const pageQuery = {
  cursor: z.string().max(CURSOR_CHARS_MAX).optional(),
  limit: decimal(1, PAGE_MAX).default(PAGE_DEFAULT),
}

/** Where in a list an answer ended. */
type Position = readonly (string | number)[]

export interface Page<Row> {
  readonly items: Row[]
  /** Null: this is the last. */
  readonly next: string | null
}

/** The first `limit` of rows that were read; where more were, the position of the last is where the next page begins. */
export function pageOf<Row>(
  found: readonly Row[],
  limit: number,
  positionOf: (row: Row) => Position,
): Page<Row> {
  const items = found.slice(0, limit)
  const last = found.length > limit ? items.at(-1) : undefined
  return { items, next: last === undefined ? null : encodeCursor(positionOf(last)) }
}

export const policyCursor = z.tuple([domainSchema, nameSchema])

export function encodeCursor(parts: Position): string {
  return Buffer.from(JSON.stringify(parts)).toString('base64url')
}

/** The position in `cursor`; null for the first page. */
export function decodeCursor<Schema extends z.ZodType>(
  schema: Schema,
  cursor: string | undefined,
): z.output<Schema> | null {
  if (cursor === undefined) return null
  const parsed = schema.safeParse(parseJson(Buffer.from(cursor, 'base64url').toString()))
  if (parsed.success) return parsed.data
  throw invalidInput([
    {
      field: 'cursor',
      message: 'is not the next of an earlier page',
      fix: 'leave it out to begin with the first page',
    },
  ])
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined // Refused by the schema, as any other cursor that we did not make.
  }
}
