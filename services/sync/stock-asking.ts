import type { RegionId } from '../../shared/core/policy.ts'
import type { NatsPolicyClient } from '../../shared/nats/policy-client.ts'
import type { Clock } from '../../shared/runtime/clock.ts'
import type { Inbox } from './inbox.ts'
import type { SyncMetrics } from './metrics.ts'
import type { RegionMemory } from './region-memory.ts'

export interface StockAsking {
  readonly region: RegionId
  readonly client: Pick<NatsPolicyClient, 'askStock'>
  readonly clock: Clock
  readonly memory: RegionMemory
  readonly inbox: Pick<Inbox, 'putStock'>
  readonly metrics: SyncMetrics
  readonly daemon: { readonly phase: string }
}

/**
 * Asks admin for the windows and tokens that this region wants, until it wants nothing more. Rejects while admin does
 * not answer; what was wanted still is. The answers are carried out by the session.
 */
export async function askStockOnce(asking: StockAsking): Promise<void> {
  const { region, client, clock, memory, inbox, metrics, daemon } = asking
  if (daemon.phase !== 'leading') return
  const nowMs = clock.monotonicMs()
  const question = memory.stock.ask(nowMs + memory.ledger.storeOffsetMs, nowMs)
  if (question === null) return
  try {
    const reply = await client.askStock(region, question.request)
    metrics.stockQuestions.inc({ outcome: 'answered' })
    inbox.putStock({ ...question, reply })
  } catch (err) {
    memory.stock.askFailed(clock.monotonicMs())
    metrics.stockQuestions.inc({ outcome: 'failed' })
    throw err
  }
}
