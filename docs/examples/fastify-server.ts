import Fastify, { type FastifyInstance } from 'fastify'
import { type QuotaClient, quotaFastify } from '../../client/mod.ts'

/** A service whose tenants are limited by the policies of the domain `api`. */
export async function createServer(client: QuotaClient): Promise<FastifyInstance> {
  const app = Fastify()
  await app.register(quotaFastify, {
    client,
    domain: 'api',
    // Take it from what you have verified, such as the session; a header is whatever the caller writes.
    descriptor: (req) => ({ tenant: String(req.headers['x-tenant']) }),
  })
  app.get('/orders', () => ({ orders: [] }))
  return app
}
