import express, { type Express } from 'express'
import { type QuotaClient, quotaExpress } from '../../client/mod.ts'

/** The same service with Express. */
export function createServer(client: QuotaClient): Express {
  const app = express()
  app.use(
    quotaExpress({
      client,
      domain: 'api',
      descriptor: (req) => ({ tenant: String(req.headers['x-tenant']) }),
    }),
  )
  app.get('/orders', (_req, res) => {
    res.json({ orders: [] })
  })
  return app
}
