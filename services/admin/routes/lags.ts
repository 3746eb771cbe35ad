import type { FastifyInstance } from 'fastify'
import type { ZodTypeProvider } from 'fastify-type-provider-zod'
import { z } from 'zod'
import { lagsReplySchema } from '../../../shared/protocol/reading-replies.ts'
import { callerOf } from '../access/authenticate.ts'
import { pairLags, regionStates } from '../views/lags.ts'
import { regionsFor } from '../views/limited.ts'
import { type AdminDeps, failures } from './route-support.ts'

/** How regions hear one another. Answered from memory. */
export function lagRoutes(root: FastifyInstance, deps: AdminDeps): void {
  const app = root.withTypeProvider<ZodTypeProvider>()
  app.get(
    '/lags',
    {
      schema: {
        tags: ['regions'],
        summary: 'Convergence lag of each pair of regions, and the state of each region',
        querystring: z.strictObject({}),
        response: { 200: lagsReplySchema, ...failures },
      },
    },
    async (req) => {
      const nowMs = deps.wallMs()
      const { live, facts, cache } = deps
      const query = { members: cache.members, live, facts, nowMs }
      const limits = { domains: callerOf(req).domains, policies: cache.policies, live }
      const upOrDown = (isUp: boolean): 'up' | 'down' => (isUp ? 'up' : 'down')
      return {
        at: new Date(nowMs).toISOString(),
        admin: { bus: upOrDown(deps.isBusUp()), database: upOrDown(deps.isDatabaseUp()) },
        regions: regionsFor(limits, regionStates(query)),
        pairs: pairLags(query),
      }
    },
  )
}
