import { createHash, timingSafeEqual } from 'node:crypto'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import { QuotaError } from '../../shared/errors.ts'
import { invalidCheck } from '../../shared/protocol/check-request.ts'
import type { Secret } from '../../shared/runtime/env.ts'
import type { CheckObserver } from './check-observer.ts'
import { SAMPLE_SECONDS_MAX } from './decision-log.ts'

export const DECISIONS_PATH = '/v1/debug/decisions'

export interface DebugOptions {
  readonly observer: CheckObserver
  /** Without it nobody may look. */
  readonly debugToken?: Secret | undefined
}

/**
 * Adds `GET` and `PUT /v1/debug/decisions`, for who has the debug token: descriptors name persons, and a caller of
 * checks may not see those of another.
 */
export function useDebug(app: FastifyInstance, { observer, debugToken }: DebugOptions): void {
  const expected = debugToken === undefined ? null : digestOf(debugToken.reveal())
  const authorize = (req: FastifyRequest): void => {
    if (expected === null) {
      throw new QuotaError(
        'QUOTA_FORBIDDEN',
        'this enforcer shows no decisions: set its ENFORCER_DEBUG_TOKEN',
      )
    }
    const [, given = ''] = /^Bearer (\S+)$/i.exec(req.headers.authorization ?? '') ?? []
    if (timingSafeEqual(digestOf(given), expected)) return
    throw new QuotaError(
      'QUOTA_UNAUTHENTICATED',
      'send the enforcer’s ENFORCER_DEBUG_TOKEN as a bearer token',
    )
  }
  app.get(DECISIONS_PATH, (req) => {
    authorize(req)
    return observer.log.read(parseAfter(req.query))
  })
  app.put(DECISIONS_PATH, (req) => {
    authorize(req)
    const { sample, seconds } = parseSample(req.body)
    observer.keep(sample, seconds)
    return observer.log.read(Number.MAX_SAFE_INTEGER)
  })
}

function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null
}

function digestOf(text: string): Buffer {
  return createHash('sha256').update(text).digest()
}

function parseAfter(query: unknown): number {
  const given = isRecord(query) ? query['after'] : undefined
  if (given === undefined) return 0
  const after = Number(given)
  if (Number.isSafeInteger(after) && after >= 0 && given !== '') return after
  throw invalidCheck([
    { field: 'after', message: 'must be a whole number', fix: 'give `next` of the answer before' },
  ])
}

function parseSample(body: unknown): { readonly sample: number; readonly seconds: number } {
  const { sample, seconds = 60 } = isRecord(body) ? body : {}
  const problems = []
  if (typeof sample !== 'number' || !(sample >= 0 && sample <= 1)) {
    const message = 'must be a number from 0 to 1'
    problems.push({ field: 'sample', message, fix: 'give 0.01 to keep one check in a hundred' })
  }
  if (
    !Number.isInteger(seconds) ||
    !(Number(seconds) >= 1 && Number(seconds) <= SAMPLE_SECONDS_MAX)
  ) {
    const message = `must be a whole number from 1 to ${SAMPLE_SECONDS_MAX}`
    problems.push({ field: 'seconds', message, fix: 'leave it out for a minute' })
  }
  if (problems.length > 0) throw invalidCheck(problems)
  return { sample: Number(sample), seconds: Number(seconds) }
}
