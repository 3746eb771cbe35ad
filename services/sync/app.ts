import Fastify, { type FastifyBaseLogger, type FastifyInstance, LogController } from 'fastify'
import type { Clock } from '../../shared/runtime/clock.ts'
import { useHealth } from '../../shared/runtime/health.ts'
import { listenerOptions } from '../../shared/runtime/listener.ts'
import type { Logger } from '../../shared/runtime/logger.ts'
import type { Registry } from '../../shared/runtime/metrics.ts'
import { useProblems } from '../../shared/runtime/problem.ts'
import { type ListenTls, renewListener } from '../../shared/runtime/tls.ts'
import type { SyncService } from './assemble.ts'

export interface SyncAppOptions {
  readonly service: SyncService
  readonly isBusConnected: () => boolean
  readonly clock: Clock
  readonly isRunning: () => boolean
  readonly registry: Registry
  readonly log: Logger
  /** Null or not given: listens without TLS. */
  readonly tls?: ListenTls | null
}

/** Probes and scrapers send a line and some header fields. */
const ARRIVAL_MS = 5_000

/**
 * The daemon's HTTP side: `/livez`, `/readyz`, `/metrics`.
 *
 * Ready while it leads its region and checks are served there; a second daemon of the region is not ready and
 * says that it waits for `leadership`. NATS and admin are wanted, not needed: without them the region goes on
 * with its base part and the policies it has. `peers` names those that said what no honest ledger says.
 */
export function createSyncApp(options: SyncAppOptions): FastifyInstance {
  const { service, isBusConnected, isRunning, registry, log } = options
  const { daemon, memory, feed } = service
  // Fastify's own line about listening would be a second one.
  const level = log.isLevelEnabled('info') ? 'warn' : log.level
  const loggerInstance: FastifyBaseLogger = log.child({}, { level })
  const app = Fastify({
    loggerInstance,
    logController: new LogController({ disableRequestLogging: true }),
    forceCloseConnections: true,
    ...listenerOptions({ tls: options.tls ?? null, arrivalMs: ARRIVAL_MS }),
  })
  renewListener(app.server, options.tls)
  const suspects = (): readonly string[] => memory.suspects(options.clock.monotonicMs())
  useProblems(app, log)
  useHealth(app, {
    isRunning,
    registry,
    checks: [
      { name: 'store', isRequired: true, isReady: () => daemon.phase !== 'connecting' },
      {
        name: 'leadership',
        isRequired: true,
        isReady: () => daemon.phase === 'starting' || daemon.phase === 'leading',
      },
      { name: 'serving', isRequired: true, isReady: () => daemon.isServing },
      { name: 'recovered', isRequired: false, isReady: () => !memory.isRecovering },
      { name: 'bus', isRequired: false, isReady: isBusConnected },
      {
        name: 'peers',
        isRequired: false,
        isReady: () => suspects().length === 0,
        detail: () => suspects().join(', '),
      },
      { name: 'policies', isRequired: false, isReady: () => !feed.isBehind },
    ],
  })
  return app
}
