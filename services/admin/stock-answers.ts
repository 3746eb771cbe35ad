import { holdingOf, pooledTokens } from '../../shared/core/enforced.ts'
import type { RegionId } from '../../shared/core/policy.ts'
import { floorsOf } from '../../shared/core/stock/pool.ts'
import { windowAt } from '../../shared/core/stock/stock-limit.ts'
import type { Db } from '../../shared/postgres/plane.ts'
import {
  type StoredLimit,
  type StoredPolicy,
  selectPolicies,
  toPolicy,
} from '../../shared/postgres/policy-rows.ts'
import { allotAll, openWindows, type StoredWindow } from '../../shared/postgres/stock.ts'
import type { StockReply, StockRequest, WindowAsk } from '../../shared/protocol/stock-messages.ts'

interface StockLimit {
  readonly policy: StoredPolicy
  readonly limit: StoredLimit
  /** Tokens of a window over all regions. */
  readonly capacity: number
}

/**
 * Opens the windows that a region asks for and gives it tokens.
 *
 * Limits are read anew each time: another admin may have changed them. What is no stock, is of another usage epoch,
 * or is a window that is over or too far ahead, is left unanswered.
 */
export async function answerStock(
  db: Db,
  question: {
    readonly region: RegionId
    readonly request: Omit<StockRequest, 'v'>
    readonly nowMs: number
  },
): Promise<Omit<StockReply, 'v'>> {
  const { region, request, nowMs } = question
  const limits = await readLimits(db, [...request.windows, ...request.asks])
  const wanted = request.windows.flatMap((ask) => windowFor(ask, limits.get(ask.limitId), nowMs))
  const opened = await openWindows(db, wanted)
  const asks = request.asks.filter(
    ({ limitId, usageEpoch }) => limits.get(limitId)?.limit.usageEpoch === usageEpoch,
  )
  const capacityOf = (limitId: number): number => limits.get(limitId)?.capacity ?? 0
  const allotted = await allotAll(db, { region, question: request.question, asks }, capacityOf)
  return {
    windows: opened.map(({ floors, ...window }) => ({ ...window, floor: floors[region] ?? 0 })),
    allotted: [...allotted],
  }
}

async function readLimits(
  db: Db,
  asks: readonly { readonly limitId: number }[],
): Promise<ReadonlyMap<number, StockLimit>> {
  const ids = [...new Set(asks.map(({ limitId }) => limitId))]
  if (ids.length === 0) return new Map()
  const rows = await selectPolicies(db)
    .where('policies.id', 'in', (eb) =>
      eb.selectFrom('limits').select('limits.policy_id').where('limits.id', 'in', ids),
    )
    .execute()
  const limits = new Map<number, StockLimit>()
  for (const policy of rows.map(toPolicy)) {
    for (const limit of policy.limits) {
      if (holdingOf(policy, limit) !== 'stock') continue
      limits.set(limit.id, { policy, limit, capacity: pooledTokens(policy, limit.capacity) })
    }
  }
  return limits
}

function windowFor(
  { limitId, usageEpoch, atMs }: WindowAsk,
  known: StockLimit | undefined,
  nowMs: number,
): readonly StoredWindow[] {
  if (known === undefined || known.limit.usageEpoch !== usageEpoch) return []
  const { limit, capacity } = known
  const { startMs, endMs } = windowAt(limit, atMs)
  // An ended one may be forgotten already, and must not begin again.
  const isOver = endMs <= nowMs
  const isFar = startMs > windowAt(limit, nowMs).endMs
  if (isOver || isFar) return []
  const { base, floorPercent } = limit
  return [
    { limitId, usageEpoch, startMs, endMs, floors: floorsOf({ base, floorPercent, capacity }) },
  ]
}
