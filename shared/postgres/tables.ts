import type { ColumnType, Generated, GeneratedAlways } from 'kysely'
import type { CalendarUnit } from '../core/calendar.ts'
import type { EmergencyEffect } from '../core/emergency.ts'
import type { OverrideRule, Tiers } from '../core/overrides.ts'
import type {
  Algorithm,
  LeaseChoice,
  Mode,
  Objective,
  Policy,
  RebaseChoice,
  StoreFailureBehaviour,
} from '../core/policy.ts'
import type { Asked } from '../core/stock/pool.ts'
import type { KeptAnswer } from './idempotency.ts'

/**
 * `draining`: its base is on its way to the others; `resuming`: on its way back. `removing`: an operator certified
 * that it is fenced off, so it leaves unheard.
 */
export type RegionState = 'active' | 'draining' | 'drained' | 'resuming' | 'removing'

/** Rows as they are stored; they do not leave shared/postgres. `int8` columns arrive as safe integers. */
export interface Tables {
  readonly plane: PlaneTable
  readonly regions: RegionsTable
  readonly removals: RemovalsTable
  readonly departures: DeparturesTable
  readonly incarnations: IncarnationsTable
  readonly domains: DomainsTable
  readonly policies: PoliciesTable
  readonly limits: LimitsTable
  readonly base_epochs: BaseEpochsTable
  readonly overrides: OverridesTable
  readonly emergency_actions: EmergencyActionsTable
  readonly policy_tombstones: TombstonesTable
  readonly audit: AuditTable
  readonly revisions: RevisionsTable
  readonly revision_changes: RevisionChangesTable
  readonly idempotency_keys: IdempotencyKeysTable
  readonly tokens: TokensTable
  readonly stock_windows: StockWindowsTable
  readonly stock_accounts: StockAccountsTable
  readonly usage_history: UsageHistoryTable
}

/** Written as text, since pg would make an array of its own out of a JSON list; read as a parsed value. */
type Json<T> = ColumnType<T, string, string>

interface PlaneTable {
  readonly is_only: GeneratedAlways<boolean>
  readonly plane_id: GeneratedAlways<string>
  readonly revision: number
}

interface DomainsTable {
  readonly name: string
  readonly description: Generated<string>
  readonly labels: ColumnType<Readonly<Record<string, string>>, string | undefined, string>
  readonly revision: Generated<number>
}

interface RegionsTable {
  readonly id: string
  readonly description: string
  readonly state: Generated<RegionState>
  readonly revision: number
  readonly registered_at: GeneratedAlways<Date>
  readonly resumes_at: ColumnType<Date | null, undefined, Date | null>
}

interface RemovalsTable {
  readonly region: string
  readonly certified_by: string
  readonly reason: string
  readonly certified_at: Date
}

interface DeparturesTable {
  readonly region: string
  readonly revision: number
  readonly settled_at: Date | null
  readonly least_incarnation: number | null
}

interface IncarnationsTable {
  readonly region: string
  readonly incarnation: number
  readonly is_first: boolean
  readonly request_id: string
  readonly taken_at: ColumnType<Date, never, Date>
}

interface PoliciesTable {
  readonly id: GeneratedAlways<number>
  readonly domain: string
  readonly name: string
  readonly description: string
  readonly match: Json<Policy['match']>
  readonly mode: Mode
  readonly relaxed_percent: number | null
  readonly objective: Objective
  readonly on_store_failure: StoreFailureBehaviour
  readonly shadow: boolean
  readonly unlimited: boolean
  readonly rebase: RebaseChoice
  readonly accept_small_limits: boolean
  readonly tiers: Json<Tiers> | null
  readonly overrides_by: string | null
  readonly labels: Json<Readonly<Record<string, string>>>
  readonly replaces: readonly string[] | null
  readonly revision: number
  readonly created_at: GeneratedAlways<Date>
  readonly updated_at: ColumnType<Date, never, Date>
}

interface LimitsTable {
  readonly id: GeneratedAlways<number>
  readonly policy_id: number
  readonly position: number
  readonly name: string
  readonly algorithm: Algorithm
  readonly capacity: number
  readonly window_ms: number
  readonly calendar_unit: CalendarUnit | null
  readonly time_zone: string | null
  readonly shards: number
  readonly leases: LeaseChoice
  readonly candidate_of: number | null
  readonly burst: number | null
  readonly split: Json<Readonly<Record<string, number>>>
  readonly floor_percent: number
  readonly usage_epoch: Generated<number>
}

interface EmergencyActionsTable {
  readonly id: GeneratedAlways<number>
  readonly policy_id: number
  readonly effect: Json<EmergencyEffect>
  readonly split: Json<Readonly<Record<string, number>>> | null
  readonly reason: string
  readonly begun_by: string
  readonly begun_at: Date
  readonly expires_at: Date
  readonly ended_at: ColumnType<Date | null, never, Date>
}

interface OverridesTable {
  readonly policy_id: number
  readonly value: string
  readonly rule: Json<OverrideRule>
  readonly expires_at: Date | null
}

interface BaseEpochsTable {
  readonly limit_id: number
  readonly epoch: number
  readonly base: Json<Readonly<Record<string, number>>>
  readonly adopted: Generated<string[]>
  readonly opened_at: GeneratedAlways<Date>
  readonly closed_at: Date | null
}

interface TombstonesTable {
  readonly policy_id: number
  readonly domain: string
  readonly name: string
  readonly revision: number
  readonly deleted_at: GeneratedAlways<Date>
}

export interface AuditTable {
  readonly seq: GeneratedAlways<number>
  readonly at: GeneratedAlways<Date>
  readonly actor: string
  readonly action: string
  readonly object_kind: string
  readonly object_id: string
  readonly before: Json<unknown> | null
  readonly after: Json<unknown> | null
  readonly request_id: string
  readonly reason: string | null
  readonly revision: number | null
}

interface IdempotencyKeysTable {
  readonly actor: string
  readonly key: string
  readonly fingerprint: Buffer
  readonly at: ColumnType<Date, never, Date>
  readonly answer: Json<KeptAnswer> | null
}

interface RevisionsTable {
  readonly number: number
  readonly first: number
  readonly at: GeneratedAlways<Date>
  readonly actor: string
  readonly reason: string | null
  readonly request_id: string
}

interface RevisionChangesTable {
  readonly revision: number
  readonly position: number
  readonly action: string
  readonly object_kind: string
  readonly object_id: string
  readonly before: Json<unknown> | null
  readonly after: Json<unknown> | null
}

export interface TokensTable {
  readonly id: string
  readonly name: string
  readonly digest: Buffer
  readonly scopes: string[]
  readonly domains: string[] | null
  readonly created_at: GeneratedAlways<Date>
  readonly created_by: string
  readonly expires_at: Date | null
  readonly revoked_at: ColumnType<Date | null, never, Date>
  readonly last_used_at: ColumnType<Date | null, never, Date>
}

interface StockWindowsTable {
  readonly limit_id: number
  readonly usage_epoch: number
  readonly starts_ms: number
  readonly ends_ms: number
  readonly floors: Json<Readonly<Record<string, number>>>
  readonly opened_at: GeneratedAlways<Date>
}

interface StockAccountsTable {
  readonly limit_id: number
  readonly usage_epoch: number
  readonly starts_ms: number
  readonly counter: string
  readonly allotted: ColumnType<Readonly<Record<string, number>>, string | undefined, string>
  readonly asked: ColumnType<Readonly<Record<string, Asked>>, string | undefined, string>
}

interface UsageHistoryTable {
  readonly resolution: string
  readonly limit_id: number
  readonly usage_epoch: number
  readonly region: string
  readonly starts_at: Date
  readonly usage_window: number
  readonly admitted: number
  readonly denied: number
  readonly returned: number
  readonly unmet: number
}
