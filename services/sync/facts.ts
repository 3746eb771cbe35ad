import type { SyncFacts } from '../../shared/protocol/facts.ts'
import { FACTS_VERSION } from '../../shared/protocol/facts.ts'
import type { Clock } from '../../shared/runtime/clock.ts'
import type { SyncService } from './assemble.ts'

/** How often facts are told: a doctor that was just started hears all of them within one such time. */
export const FACTS_INTERVAL_MS = 3_000

export interface FactsSource {
  readonly region: string
  /** Of this process. */
  readonly daemon: string
  readonly version: string
  readonly service: Pick<SyncService, 'daemon' | 'memory'>
  readonly clock: Clock
  readonly natsVersion: () => string | null
  readonly readRedis: () => Promise<SyncFacts['redis']>
}

/** What this daemon knows of itself and of its servers now. */
export async function readFacts(source: FactsSource): Promise<SyncFacts> {
  const { region, daemon, version, service, clock } = source
  const redis = await source.readRedis()
  const { memory } = service
  const nowMs = clock.monotonicMs()
  const { phase } = service.daemon
  return {
    v: FACTS_VERSION,
    from: region,
    daemon,
    version,
    isLeading: phase === 'starting' || phase === 'leading',
    sentAtMs: Math.round(clock.wallMs()),
    redis,
    natsVersion: source.natsVersion(),
    peers: [...memory.ledger.heard].map(([peer, { atMs }]) => ({
      region: peer,
      ageMs: Math.max(0, Math.round(nowMs - atMs)),
    })),
    overAdmitted: memory.overAdmission.worst,
    alarms: Object.values(memory.ledger.alarms).reduce((sum, count) => sum + count, 0),
  }
}
