import type { FastifyInstance } from 'fastify'
import type { ZodTypeProvider } from 'fastify-type-provider-zod'
import { z } from 'zod'
import { isQuotaError, QuotaError } from '../../../shared/errors.ts'
import { readRevision } from '../../../shared/postgres/plane.ts'
import { shortened } from '../../../shared/protocol/policy-fields.ts'
import { rolloutReplySchema } from '../../../shared/protocol/rollout-reply.ts'
import { callerOf } from '../access/authenticate.ts'
import { rolloutFor } from '../views/limited.ts'
import { decimal } from './decimal.ts'
import { mendedBy } from './fixes.ts'
import { type AdminDeps, failures } from './route-support.ts'

const tags = ['rollouts']

const params = mendedBy(
  z.object({
    revision: z.union([z.literal('latest'), decimal(1)], { error: refusalOf }),
  }),
  {
    revision:
      'give latest, or the number of a revision in decimal digits, as GET /v1/revisions lists them',
  },
)

function refusalOf({ input }: { readonly input?: unknown }): string {
  return `must be latest or the number of a revision, not ${shortened(JSON.stringify(input))}`
}

/**
 * Where a revision is applied. Answered from memory; while Postgres is away, the latest revision is the newest that
 * admin knows of.
 */
export function rolloutRoutes(root: FastifyInstance, deps: AdminDeps): void {
  const app = root.withTypeProvider<ZodTypeProvider>()
  app.get(
    '/rollouts/:revision',
    {
      schema: {
        tags,
        summary:
          'Which regions and enforcers apply a revision, since when, and what is pending or refused and why',
        description:
          'A token that is limited to domains is not told why a region refuses: that may name policies of others.',
        params,
        response: { 200: rolloutReplySchema, ...failures },
      },
    },
    async (req) => {
      const asked = req.params.revision
      const newest = await newestRevision(deps)
      const revision = asked === 'latest' ? newest : asked
      if (revision > newest) {
        const message = `there is no revision ${revision} yet; the newest is ${newest}`
        throw new QuotaError('QUOTA_REVISION_NOT_FOUND', message)
      }
      const { rollouts, cache, wallMs } = deps
      const query = { revision, members: cache.members, nowMs: wallMs() }
      return rolloutFor(callerOf(req), rollouts.rolloutOf(query))
    },
  )
}

async function newestRevision({ db, cache }: AdminDeps): Promise<number> {
  try {
    return await readRevision(db)
  } catch (err) {
    if (!isQuotaError(err, 'QUOTA_DATABASE_UNAVAILABLE') || cache.revision === 0) throw err
    return cache.revision
  }
}
