/**
 * `POST /v1/lease` and `POST /v1/lease/return`: blocks of tokens that a client spends without asking, under the rule of
 * `core/lease.ts`.
 */
import { TOKENS_MAX } from '../core/units.ts'
import type { InputProblem } from '../errors.ts'
import type { CheckDecision } from './check-answer.ts'
import { type CheckRequest, invalidCheck, parseCheckRequest } from './check-request.ts'

export const LEASE_PATH = '/v1/lease'
export const LEASE_RETURN_PATH = '/v1/lease/return'

/** One descriptor, in the list that a check has too, and how many tokens are wanted. */
export type LeaseRequest = Omit<CheckRequest, 'cost' | 'requestId'> & { readonly tokens: number }

/** What is left of the block `id`; the domain and descriptor are those that it was asked for with. */
export type LeaseReturn = LeaseRequest & { readonly id: string }

/**
 * Why there is no block: such checks are asked for one by one.
 *
 * `unmatched`, `unlimited`, `denied`, `several_limits`, `watched` (a shadow or a candidate), `sharded`, `algorithm`,
 * `long_window` (a calendar, or a day and more), `off` and `too_small` change only with the policy. `empty`: too little
 * is left now. `store_unavailable`: Redis did not grant it.
 */
export const LEASE_REFUSALS = [
  'unmatched',
  'unlimited',
  'denied',
  'several_limits',
  'watched',
  'sharded',
  'algorithm',
  'long_window',
  'off',
  'too_small',
  'empty',
  'store_unavailable',
] as const
export type LeaseRefusal = (typeof LEASE_REFUSALS)[number]

/**
 * The answer of `POST /v1/lease`. `revision` is the highest policy revision that the enforcer applies.
 *
 * Of a block: its tokens are debited already. It may be spent for `lifeMs` (shortened by both clocks' drift) from the
 * instant at which the client sent the request, never from the answer. `decision` is what a check would have been told
 * before the block was taken: its `remaining` has the block in it.
 */
export type LeaseAnswer = { readonly region: string; readonly revision: number } & (
  | { readonly tokens: 0; readonly reason: LeaseRefusal }
  | {
      readonly tokens: number
      readonly id: string
      readonly lifeMs: number
      readonly decision: CheckDecision
    }
)

/** An id of a block: 36 characters that nobody can guess, and 16 that bind it to its counter. */
const LEASE_ID = /^[0-9a-f-]{36}\.[\w-]{16}$/

/** Throws QUOTA_INVALID_INPUT, naming every field that is wrong. */
export function parseLeaseRequest(body: unknown): LeaseRequest {
  const { tokens, ...rest } = membersOf(body)
  return parse(rest, tokens, [])
}

/** As `parseLeaseRequest`. */
export function parseLeaseReturn(body: unknown): LeaseReturn {
  const { tokens, id, ...rest } = membersOf(body)
  const isId = typeof id === 'string' && LEASE_ID.test(id)
  const message = id === undefined ? 'is missing' : 'must be the id of a lease'
  const fix = 'send the id that the answer to the lease had'
  const request = parse(rest, tokens, isId ? [] : [{ field: 'id', message, fix }])
  return { ...request, id: id as string }
}

function parse(
  rest: Readonly<Record<string, unknown>>,
  tokens: unknown,
  found: readonly InputProblem[],
): LeaseRequest {
  const problems = [...found]
  for (const field of ['cost', 'requestId']) {
    if (!(field in rest)) continue
    const fix = 'leave it out: a lease names its tokens, and is known by its own id'
    problems.push({ field, message: 'is not a known field', fix })
  }
  const isWhole = typeof tokens === 'number' && Number.isInteger(tokens)
  if (!isWhole || tokens < 1 || tokens > TOKENS_MAX) {
    const message = tokens === undefined ? 'is missing' : 'must be a whole number of tokens'
    problems.push({ field: 'tokens', message, fix: `send a whole number from 1 to ${TOKENS_MAX}` })
  }
  const { descriptors: list } = rest
  if (Array.isArray(list) && list.length > 1) {
    const message = `must have one element, not ${list.length}`
    const fix = 'send one descriptor: a block is of one'
    problems.push({ field: 'descriptors', message, fix })
  }
  if (problems.length > 0) throw invalidCheck(problems)
  const { domain, descriptors } = parseCheckRequest(rest)
  return { domain, descriptors, tokens: tokens as number }
}

function membersOf(body: unknown): Readonly<Record<string, unknown>> {
  if (typeof body === 'object' && body !== null && !Array.isArray(body)) return { ...body }
  const fix =
    'send {"domain":"api","descriptors":[{"entries":[{"key":"tenant","value":"acme"}]}],"tokens":100}'
  throw invalidCheck([{ field: 'body', message: 'must be a JSON object', fix }])
}
