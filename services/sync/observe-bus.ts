import { REGIONS_MAX } from '../../shared/core/units.ts'
import type { NatsRecordBusOptions } from '../../shared/nats/record-bus.ts'
import { createFailureLog } from '../../shared/runtime/failure-log.ts'
import type { Logger } from '../../shared/runtime/logger.ts'
import type { SyncMetrics } from './metrics.ts'

/** As many as a plane may have, and some that are no longer of it. */
const REFUSED_PEERS_MAX = 2 * REGIONS_MAX

/** Counts what the bus sends and refuses; says a newer peer once, and the rest now and then. */
export function createBusObserver(
  metrics: SyncMetrics,
  log: Logger,
): Omit<NatsRecordBusOptions, 'region'> {
  const newer = new Set<string>()
  /** Names that have a series of their own: any may be said by who may publish anything. */
  const named = new Set<string>()
  const labelOf = (peer: string): string => {
    if (named.size < REFUSED_PEERS_MAX) named.add(peer)
    return named.has(peer) ? peer : 'other'
  }
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
      const label = peer === null ? 'unknown' : labelOf(peer)
      metrics.recordsRefused.inc({ peer: label, reason })
      if (reason !== 'newer_version') {
        refusals.failed({ peer, reason, detail })
        return
      }
      if (peer === null || label === 'other' || newer.has(peer)) return
      newer.add(peer)
      log.warn({ peer, detail }, 'peer speaks a newer version of records; upgrade this region')
    },
  }
}
