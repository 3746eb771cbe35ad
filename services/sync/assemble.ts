import type { RegionId } from '../../shared/core/policy.ts'
import type { CountBus, RecordBus, RegionStore } from '../../shared/core/ports.ts'
import type { NatsPolicyClient } from '../../shared/nats/policy-client.ts'
import type { NatsRolloutBus } from '../../shared/nats/rollout-bus.ts'
import type { Clock } from '../../shared/runtime/clock.ts'
import { every, type Loop } from '../../shared/runtime/every.ts'
import type { Logger } from '../../shared/runtime/logger.ts'
import type { Tracer } from '../../shared/runtime/tracing/tracer.ts'
import { Daemon } from './daemon.ts'
import { Inbox } from './inbox.ts'
import { Incarnations } from './incarnations.ts'
import { Leadership } from './leadership.ts'
import type { SyncMetrics } from './metrics.ts'
import { PolicyFeed } from './policy-feed.ts'
import { RegionMemory } from './region-memory.ts'
import { askStockOnce } from './stock-asking.ts'
import { TokenFeed } from './token-feed.ts'
import { Wakeup } from './wakeup.ts'

/** How often it is looked whether admin has to be asked; a hint wakes the loop at once. */
const POLICY_INTERVAL_MS = 1_000

/** Longer than a request may take, so that a step ends by its own failure. */
const STOCK_TIMEOUT_MS = 10_000

/** How often admin is told which revision is applied here; a change is told at once. Nothing but memory is asked. */
const ROLLOUT_INTERVAL_MS = 1_000
const ROLLOUT_TIMEOUT_MS = 1_000

/** Longer than all pages of the most tokens take; a request that gets no answer gives up long before. */
const TOKENS_TIMEOUT_MS = 30_000

/** A series of pages of a large plane takes seconds; a request that gets no answer gives up long before. */
const POLICY_TIMEOUT_MS = 60_000

export interface SyncParts {
  readonly region: RegionId
  /** Unique to this process: what it holds the lease as. */
  readonly holder: string
  readonly bus: RecordBus
  readonly countBus: CountBus
  readonly policyClient: NatsPolicyClient
  readonly rolloutBus: Pick<NatsRolloutBus, 'publish'>
  readonly connect: () => Promise<RegionStore>
  readonly clock: Clock
  readonly log: Logger
  readonly metrics: SyncMetrics
  readonly tracer?: Tracer | undefined
  /** Called when an assertion broke: our own bug, on which the process must stop. */
  readonly onBug: (err: Error) => void
}

export interface SyncService {
  readonly daemon: Daemon
  readonly memory: RegionMemory
  readonly feed: PolicyFeed
  /** They ask admin for what changed, for tokens for checks and for those of long windows, and tell it what is applied. They run already. */
  readonly loops: readonly Loop[]
}

/** Joins the daemon's parts. Records and policies are taken in from here on; `daemon.start` begins to lead. */
export function assembleSync(parts: SyncParts): SyncService {
  const { region, holder, bus, policyClient: client, clock, log, metrics, onBug } = parts
  const wakeup = new Wakeup()
  const inbox = new Inbox(() => wakeup.wake())
  const memory = new RegionMemory(region)
  const incarnations = new Incarnations({ region, holder, client, clock, log })
  const feed = new PolicyFeed({
    client,
    clock,
    log,
    metrics,
    onPlane: (plane) => inbox.putPlane(plane, parts.tracer?.fields()),
    tracer: parts.tracer,
    onWanted: () => policyLoop.wake(),
  })
  const policyLoop = every(
    {
      name: 'policies',
      intervalMs: POLICY_INTERVAL_MS,
      timeoutMs: POLICY_TIMEOUT_MS,
      log,
      onBug,
    },
    async () => {
      await feed.pullOnce()
      await incarnations.tell()
    },
  )
  const stockLoop = every(
    { name: 'stock', intervalMs: POLICY_INTERVAL_MS, timeoutMs: STOCK_TIMEOUT_MS, log, onBug },
    () => askStockOnce({ region, client, clock, memory, inbox, metrics, daemon }),
  )
  const rolloutLoop = every(
    {
      name: 'rollout',
      intervalMs: ROLLOUT_INTERVAL_MS,
      timeoutMs: ROLLOUT_TIMEOUT_MS,
      log,
      onBug,
    },
    async () => {
      const { phase } = daemon
      const isAwaitingAdmin = memory.freshSinceMs !== null
      const state = { region, phase, hasLed: memory.hasLedger, isAwaitingAdmin, feed }
      const report = memory.rollout.reportOf(state)
      if (report !== null) parts.rolloutBus.publish(report)
    },
  )
  parts.countBus.onReport((report) => inbox.putCounts(report))
  bus.onRecord((record) => {
    metrics.recordsReceived.inc({ peer: record.from })
    inbox.putRecord(record)
  })
  bus.onQuestion(() => inbox.putQuestion())
  const leadership = new Leadership(holder, clock)
  const daemon = new Daemon({
    ...parts,
    leadership,
    inbox,
    memory,
    incarnations,
    feed,
    wakeup,
    onStockWanted: () => stockLoop.wake(),
    onRollout: () => rolloutLoop.wake(),
  })
  return {
    daemon,
    memory,
    feed,
    loops: [policyLoop, followTokens(parts, inbox), stockLoop, rolloutLoop],
  }
}

/** Asks admin for the tokens for checks whenever it tells of others. */
function followTokens({ policyClient, clock, log, onBug }: SyncParts, inbox: Inbox): Loop {
  const feed = new TokenFeed({
    client: policyClient,
    clock,
    onTokens: (tokens) => inbox.putTokens(tokens),
    onWanted: () => loop.wake(),
  })
  const times = { intervalMs: POLICY_INTERVAL_MS, timeoutMs: TOKENS_TIMEOUT_MS }
  const loop = every({ name: 'tokens', ...times, log, onBug }, () => feed.pullOnce())
  return loop
}
