import type { ChangeContext } from '../../shared/postgres/audit.ts'
import { listEndedPins, listExpired } from '../../shared/postgres/emergency.ts'
import type { Db } from '../../shared/postgres/plane.ts'
import { changePlane } from '../../shared/postgres/plane-change.ts'
import { endAction, restoreBase } from './emergency-changes.ts'

/** Most actions that one step ends. */
const ENDED_PER_STEP_MAX = 100

const CONTEXT: ChangeContext = {
  actor: 'admin',
  requestId: 'emergency-ends',
  reason: 'the time of an emergency action is over',
}

/**
 * Takes actions out of the books whose time is over, and brings back the base of pins that have ended. Regions do not
 * wait for it: each ended the action by its own clock. True when something changed.
 */
export async function endExpiredActions(db: Db, nowMs: number): Promise<boolean> {
  const due = await listExpired(db, nowMs, 1)
  const pins = await listEndedPins(db)
  if (due.length + pins.length === 0) return false
  return await changePlane(db, CONTEXT, async (plane) => {
    // Another admin may have been faster.
    for (const action of await listExpired(plane.trx, nowMs, ENDED_PER_STEP_MAX)) {
      await endAction(plane, action, { action: 'emergency.expire', nowMs })
    }
    for (const pin of await listEndedPins(plane.trx)) await restoreBase(plane, pin)
    return plane.isRaised
  })
}
