import Fastify, { type FastifyInstance } from 'fastify'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { QuotaError } from '../../../shared/errors.ts'
import { createLogger } from '../../../shared/runtime/logger.ts'
import { refuseByFramework, useProblems } from '../../../shared/runtime/problem.ts'

const log = createLogger({ service: 'test', level: 'silent' })
const warn = vi.spyOn(log, 'warn')
const error = vi.spyOn(log, 'error')

let app: FastifyInstance
let thrown: unknown

beforeEach(() => {
  warn.mockClear()
  error.mockClear()
  app = Fastify({ frameworkErrors: refuseByFramework })
  useProblems(app, log)
  app.get('/fails', () => {
    throw thrown
  })
})
afterEach(() => app.close())

describe('useProblems', () => {
  it('says what a caller can mend, field by field', async () => {
    const problems = [{ field: 'cost', message: 'must not be negative', fix: 'send 0 or more' }]
    thrown = new QuotaError('QUOTA_INVALID_INPUT', 'cost must not be negative', { problems })
    const reply = await app.inject('/fails')
    expect(reply.statusCode).toBe(400)
    expect(reply.headers['content-type']).toContain('application/problem+json')
    expect(reply.json()).toMatchObject({
      type: 'about:blank',
      status: 400,
      code: 'QUOTA_INVALID_INPUT',
      detail: 'cost must not be negative',
      errors: problems,
    })
    expect(warn).not.toHaveBeenCalled()
  })

  it('logs an outage now and then, not once a request', async () => {
    thrown = new QuotaError('QUOTA_STORE_UNAVAILABLE', 'no policies yet')
    for (let turn = 0; turn < 50; turn++) {
      expect((await app.inject('/fails')).statusCode).toBe(503)
    }
    expect(warn).toHaveBeenCalledTimes(1)
  })

  it('keeps to itself what an unexpected failure was, and logs it under the request id', async () => {
    thrown = new Error('the secret of the bug')
    const reply = await app.inject('/fails')
    expect(reply.statusCode).toBe(500)
    expect(reply.body).not.toContain('secret')
    expect(error.mock.calls[0]?.[0]).toMatchObject({ reqId: reply.json().requestId })
  })

  it('makes what Fastify itself refuses a problem document too', async () => {
    for (const [request, status] of [
      [{ method: 'GET', url: '/nowhere' }, 404],
      [{ method: 'GET', url: '/%' }, 400],
    ] as const) {
      const reply = await app.inject(request)
      expect(reply.statusCode).toBe(status)
      expect(reply.json()).toMatchObject({ status })
    }
  })
})
