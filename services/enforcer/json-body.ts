import type { FastifyRequest } from 'fastify'
import { invalidCheck } from '../../shared/protocol/check-request.ts'

/** A content type parser for Fastify whose errors name the field; its own JSON parser's do not. */
export function parseJson(
  _req: FastifyRequest,
  body: string | Buffer,
  done: (err: Error | null, body?: unknown) => void,
): void {
  try {
    done(null, JSON.parse(String(body)))
  } catch (err) {
    const message = `must be valid JSON: ${err instanceof Error ? err.message : 'not readable'}`
    done(invalidCheck([{ field: 'body', message, fix: 'send one JSON object in UTF-8' }]))
  }
}
