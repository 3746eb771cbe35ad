import type { FastifyInstance } from 'fastify'
import { withExamples } from './examples.ts'
import { PAGE_POLICY, pageOf } from './page.ts'

/** The OpenAPI document with examples, and the page to read it on; both need no token and are made once. */
export function referenceRoutes(app: FastifyInstance): void {
  let document: object | null = null
  let page: string | null = null
  const read = (): object => {
    document ??= withExamples(structuredClone(app.swagger())) as object
    return document
  }
  app.get('/openapi.json', { schema: { hide: true } }, () => read())
  app.get('/docs', { schema: { hide: true } }, async (_req, reply) => {
    page ??= pageOf(read())
    reply.header('content-security-policy', PAGE_POLICY)
    reply.header('x-content-type-options', 'nosniff')
    return reply.type('text/html; charset=utf-8').send(page)
  })
}
