import type { NatsRecordBusOptions } from '../../shared/nats/record-bus.ts'
import { createFailureLog } from '../../shared/runtime/failure-log.ts'
import type { Logger } from '../../shared/runtime/logger.ts'
import type { SyncMetrics } from './metrics.ts'

/** Counts what the bus sends and refuses; says a newer peer once, and the rest now and then. */
export function createBusObserver(
  metrics: SyncMetrics,
  log: Logger,
): Omit<NatsRecordBusOptions, 'region'> {
  const newer = new Set<string>()
  const failures = createFailureLog({
    log,
    fields: {},
    failedMessage: 'record not sent',
    succeededMessage: 'records sent again',
  })
  const refusals = createFailureLog({
    log,
    fields: {},
    failedMessage: 'record refused',
    succeededMessage: 'record accepted',
  })
  return {
    onSent({ bytes, isWhole }) {
      metrics.recordsSent.inc({ form: isWhole ? 'whole' : 'changes' })
      metrics.recordBytes.inc(bytes)
      failures.succeeded()
    },
    onSendFailed(reason, detail) {
      metrics.recordsUnsent.inc({ reason })
      failures.failed({ reason, detail })
    },
    onGap(peer) {
      metrics.recordGaps.inc({ peer })
    },
    onRefused(peer, reason, detail) {
      metrics.recordsRefused.inc({ peer: peer ?? 'unknown', reason })
      if (reason !== 'newer_version') {
        refusals.failed({ peer, reason, detail })
        return
      }
      if (peer === null || newer.has(peer)) return
      newer.add(peer)
      log.warn({ peer, detail }, 'peer speaks a newer version of records; upgrade this region')
    },
  }
}
