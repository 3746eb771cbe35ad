import type { CounterId } from '../../../../shared/core/descriptor.ts'
import type { Continuity, RegionRecord, UsageRow } from '../../../../shared/core/ledger/types.ts'
import type { Process } from './process.ts'
import type { RegionRedis } from './region-redis.ts'

/** What a daemon needs of the world around its region. */
export interface Surroundings {
  publish(record: RegionRecord): void
  askPlane(question: number): void
  askIncarnation(request: string, atLeast: number): void
  /** Own usage for the next record. */
  usage(): readonly UsageRow[]
  /** Called when shares of these keys changed in Redis; null: of all, limits did. */
  onStoreChange(ids: readonly CounterId[] | null): void
  wallMs(): number
}

export interface DaemonDeps {
  readonly region: string
  readonly holder: string
  readonly process: Process
  readonly redis: RegionRedis
  readonly surroundings: Surroundings
}

/** How a session begins: see services/sync/boot.ts. */
export interface Beginning {
  readonly continuity: Continuity
  readonly incarnation: number
  readonly isFromStore: boolean
  readonly startUs: number
}
