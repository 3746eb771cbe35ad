import { QuotaError } from '../../shared/errors.ts'
import type { PolicySource } from '../../shared/nats/policy-publisher.ts'
import { changesOf, readChanges, readRemoved } from '../../shared/postgres/changes.ts'
import { readCheckTokens } from '../../shared/postgres/check-tokens.ts'
import { readMembership } from '../../shared/postgres/departures.ts'
import { hasIncarnation, takeIncarnation } from '../../shared/postgres/incarnations.ts'
import { type Db, readRevision, readStamp } from '../../shared/postgres/plane.ts'
import type { LiveView } from './live-view.ts'
import type { PlaneCache } from './plane-cache.ts'
import { answerStock } from './stock-answers.ts'

/**
 * How long admin listens before it calls a region new: every region that lives publishes each second, and one that
 * ever met the asking region says so in each record. A Postgres restored from a copy may not know it.
 */
export const LISTEN_MS = 1_500

/** Most changes that are read of Postgres for one answer: few enough that large ones are not read to be thrown away. */
const READ_MAX = 200

export interface PolicySourceOptions {
  readonly db: Db
  readonly live: LiveView
  readonly cache: Pick<PlaneCache, 'changedAt'>
  readonly wallMs: () => number
  /** How long the records of regions have been listened to without a break; 0 while they are not. */
  readonly listeningMs: () => number
}

/** Answers the regions' questions out of Postgres. */
export function createPolicySource(options: PolicySourceOptions): PolicySource {
  const { db, live, cache, wallMs, listeningMs } = options
  return {
    async readChanges(query) {
      const stamp = await readStamp(db)
      refuseOlderThanRegions(stamp.revision, live)
      const policies = cache.changedAt(stamp, query)
      const read =
        policies === null
          ? await readChanges(db, { ...query, limit: Math.min(query.limit, READ_MAX) })
          : changesOf(
              stamp.revision,
              { policies, removed: await readRemoved(db, query) },
              query.limit,
            )
      // After the revision was read, so that the members are never older than what they are told with.
      return { ...read, ...(await readMembership(db)) }
    },
    async readCheckTokens(query) {
      refuseOlderThanRegions(await readRevision(db), live)
      return await readCheckTokens(db, query)
    },
    async takeIncarnation({ region, requestId, atLeast }) {
      refuseOlderThanRegions(await readRevision(db), live)
      const known = Math.max(atLeast, live.knownIncarnation(region))
      const mayBeNew = known === 0 && !(await hasIncarnation(db, region))
      if (mayBeNew && listeningMs() < LISTEN_MS) {
        const message = `whether ${region} is new is known once others were listened to`
        throw new QuotaError('QUOTA_BUS_UNAVAILABLE', message)
      }
      return await takeIncarnation(db, { region, requestId, atLeast: known, nowMs: wallMs() })
    },
    answerStock(region, request) {
      return answerStock(db, { region, request, nowMs: wallMs() })
    },
  }
}

/**
 * Revisions only grow, so a Postgres behind a region was restored from an older copy. Base splits of two histories
 * would sum to more than a limit, so it is asked nothing any more.
 */
function refuseOlderThanRegions(revision: number, live: LiveView): void {
  const newest = live.newestRevision()
  if (newest <= revision) return
  const message = `regions have applied revision ${newest} but Postgres is at ${revision}: it was restored from an older copy. Restore a newer one`
  throw new QuotaError('QUOTA_DATABASE_UNAVAILABLE', message)
}
