import type { PolicySource } from '../../shared/nats/policy-publisher.ts'
import { readChanges } from '../../shared/postgres/changes.ts'
import { readMembership } from '../../shared/postgres/departures.ts'
import { takeIncarnation } from '../../shared/postgres/incarnations.ts'
import type { Db } from '../../shared/postgres/plane.ts'
import type { LiveView } from './live-view.ts'
import { answerStock } from './stock-answers.ts'

/** Answers the regions' questions out of Postgres. */
export function createPolicySource(db: Db, wallMs: () => number, live: LiveView): PolicySource {
  return {
    async readChanges(query) {
      const read = await readChanges(db, query)
      // After the revision was read, so that the members are never older than what they are told with.
      return { ...read, ...(await readMembership(db)) }
    },
    async takeIncarnation({ region, requestId, atLeast }) {
      const heard = live.health(region, wallMs()).incarnation ?? 0
      const known = Math.max(atLeast, heard)
      return await takeIncarnation(db, { region, requestId, atLeast: known, nowMs: wallMs() })
    },
    answerStock(region, request) {
      return answerStock(db, { region, request, nowMs: wallMs() })
    },
  }
}
