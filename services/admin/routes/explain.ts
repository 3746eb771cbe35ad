import type { FastifyInstance } from 'fastify'
import type { ZodTypeProvider } from 'fastify-type-provider-zod'
import { ENTRIES_MAX, ENTRY_VALUE_BYTES_MAX } from '../../../shared/core/descriptor.ts'
import { explainReplySchema, explainRequestSchema } from '../../../shared/protocol/explain.ts'
import { explain } from '../views/explain.ts'
import { mendedBy } from './fixes.ts'
import { type AdminDeps, failures } from './route-support.ts'

const EXPLAIN_FIXES = {
  entries: `give 1 to ${ENTRIES_MAX} entries such as {"key":"tenant","value":"acme"}`,
  value: `give a value of 1 to ${ENTRY_VALUE_BYTES_MAX} bytes`,
}

/** Answered from memory, by the matching of enforcers; changes nothing. */
export function explainRoutes(root: FastifyInstance, deps: AdminDeps): void {
  const app = root.withTypeProvider<ZodTypeProvider>()
  app.post(
    '/explain',
    {
      schema: {
        tags: ['views'],
        summary: 'Which policy governs a descriptor, why others do not, and the numbers in force',
        body: mendedBy(explainRequestSchema, EXPLAIN_FIXES),
        response: { 200: explainReplySchema, ...failures },
      },
    },
    async ({ body }) => {
      const { cache, live, wallMs } = deps
      const { policies, revision, members } = cache
      const { domain, entries, policy = null } = body
      const plane = { policies, revision, members, live, nowMs: wallMs() }
      return explain({ domain, entries, policy, ...plane })
    },
  )
}
