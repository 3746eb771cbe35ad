import type { Decision, DecisionReason } from '../../shared/core/decision.ts'
import { systemClock } from '../../shared/runtime/clock.ts'
import type { Loop } from '../../shared/runtime/every.ts'
import { gauge, type Registry } from '../../shared/runtime/metrics.ts'
import { type Cell, Tally } from '../../shared/runtime/tally.ts'
import { timings } from '../../shared/runtime/tracing/exemplars.ts'
import type { Tracer } from '../../shared/runtime/tracing/tracer.ts'
import { CheckTimer } from './check-timer.ts'

/** Why a decision was made without the store. */
export type DegradedReason = 'store_unavailable' | 'store_skipped' | 'policy_stale'

/** What is counted of watched limits of one policy. `unknown`: the store was not asked or did not answer. */
export interface WatchCells {
  readonly allowed: Cell
  readonly denied: Cell
  readonly unknown: Cell
}

/** What is counted of one policy. */
export interface PolicyCells {
  readonly allowed: Cell
  readonly denied: Readonly<Record<Exclude<DecisionReason, 'store_unavailable'>, Cell>>
  readonly allowedWithoutStore: Cell
  readonly deniedWithoutStore: Cell
  readonly degraded: Readonly<Record<DegradedReason, Cell>>
  /** Made on first use, since few policies are watched. */
  readonly watched: (kind: 'shadow' | 'candidate') => WatchCells
}

/** Of an unavailable store, too: it is up, and its memory is full. */
export type StoreErrorCode = 'QUOTA_STORE_UNAVAILABLE' | 'QUOTA_POLICY_STALE' | 'OUT_OF_MEMORY'

/** Everything that the enforcer counts. Each check raises exactly one of allowed, denied and error. */
export interface EnforcerMetrics {
  readonly checks: Readonly<Record<'allowed' | 'denied' | 'error', Cell>>
  readonly invalid: Cell
  readonly unmatchedChecks: Cell
  readonly unmatchedDescriptors: Cell
  readonly storeErrors: Readonly<Record<StoreErrorCode, Cell>>
  readonly giveBacks: Readonly<Record<'done' | 'failed', Cell>>
  readonly refunds: Readonly<Record<'refunded' | 'repeated' | 'too_late', Cell>>
  readonly releases: Cell
  readonly timer: Pick<CheckTimer, 'begin' | 'end'>
  cellsOf(policy: string): PolicyCells
}

/** What the gauges read at the time of a scrape. */
export interface EnforcerState {
  readonly policyVersion: () => number
  readonly policyRevision: () => number
  readonly policyAgeMs: () => number | null
  readonly isGuardOpen: () => boolean
  readonly loopStalls: () => number
  readonly checksInFlight: () => number
  readonly routesKept: () => number
  readonly loops: () => readonly Loop[]
}

/** From a check answered out of one round trip to Redis up to one that met the deadline; 0.02 is Envoy's time-out. */
const DURATION_BUCKETS = [0.00025, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 1]

/** Policies with series of their own; later ones share the label `other`, so that edits cannot fill the memory. */
const POLICY_LABELS_MAX = 1_000

/** With a tracer durations show traces. */
export function createEnforcerMetrics(registry: Registry, tracer?: Tracer): EnforcerMetrics {
  const checks = new Tally(registry, {
    name: 'quotaplane_checks_total',
    help: 'Checks answered; an error is one that got no decision.',
    labels: ['outcome'],
  })
  const count = (name: string, help: string): Cell => new Tally(registry, { name, help }).cell({})
  const storeErrors = new Tally(registry, {
    name: 'quotaplane_store_errors_total',
    help: 'Calls of the store that decided nothing, by error code.',
    labels: ['code'],
  })
  const refunds = new Tally(registry, {
    name: 'quotaplane_refunds_total',
    help: 'Checks whose callers asked for their tokens back, by what became of it.',
    labels: ['outcome'],
  })
  const giveBacks = new Tally(registry, {
    name: 'quotaplane_give_backs_total',
    help: 'Slot groups given their tokens back because another group denied the check.',
    labels: ['outcome'],
  })
  const named = {
    name: 'quotaplane_check_duration_seconds',
    help: 'Time from a parsed check to its answer, of one check in 16.',
    buckets: DURATION_BUCKETS,
  }
  const durations = timings(registry, named, tracer)
  return {
    checks: {
      allowed: checks.cell({ outcome: 'allowed' }),
      denied: checks.cell({ outcome: 'denied' }),
      error: checks.cell({ outcome: 'error' }),
    },
    invalid: count('quotaplane_invalid_checks_total', 'Requests refused as not valid; not checks.'),
    unmatchedChecks: count(
      'quotaplane_unmatched_checks_total',
      'Checks allowed because no policy governs any of their descriptors.',
    ),
    unmatchedDescriptors: count(
      'quotaplane_unmatched_descriptors_total',
      'Descriptors that no policy governs.',
    ),
    storeErrors: {
      QUOTA_STORE_UNAVAILABLE: storeErrors.cell({ code: 'QUOTA_STORE_UNAVAILABLE' }),
      QUOTA_POLICY_STALE: storeErrors.cell({ code: 'QUOTA_POLICY_STALE' }),
      OUT_OF_MEMORY: storeErrors.cell({ code: 'OUT_OF_MEMORY' }),
    },
    refunds: {
      refunded: refunds.cell({ outcome: 'refunded' }),
      repeated: refunds.cell({ outcome: 'repeated' }),
      too_late: refunds.cell({ outcome: 'too_late' }),
    },
    releases: count('quotaplane_releases_total', 'Requests that released what they held.'),
    giveBacks: {
      done: giveBacks.cell({ outcome: 'done' }),
      failed: giveBacks.cell({ outcome: 'failed' }),
    },
    timer: new CheckTimer(durations, systemClock),
    cellsOf: policyCells(registry),
  }
}

/** Raises what one decision counts for. */
export function countDecision(
  cells: PolicyCells,
  decision: Decision,
  degraded: DegradedReason | null,
): void {
  if (degraded !== null) cells.degraded[degraded].count++
  const { allowed, reason } = decision
  if (reason === 'store_unavailable') {
    if (allowed) cells.allowedWithoutStore.count++
    else cells.deniedWithoutStore.count++
  } else if (reason === null) cells.allowed.count++
  else cells.denied[reason].count++
}

/** Declares the gauges; each reads `state` when it is scraped. */
export function observeEnforcer(registry: Registry, state: EnforcerState): void {
  const read = (name: string, help: string, value: () => number): void => {
    gauge(registry, {
      name,
      help,
      collect() {
        this.set(value())
      },
    })
  }
  read('quotaplane_policy_version', 'Policy version of the region in force.', state.policyVersion)
  read('quotaplane_policy_revision', 'Highest policy revision in force.', state.policyRevision)
  read(
    'quotaplane_policy_age_seconds',
    'Time since Redis last confirmed the policy version; -1 before the first time.',
    () => (state.policyAgeMs() ?? -1_000) / 1_000,
  )
  read('quotaplane_store_guard_open', '1 while checks are answered without the store.', () =>
    state.isGuardOpen() ? 1 : 0,
  )
  read(
    'quotaplane_loop_stalls',
    'Times that this process kept replies of Redis from being read in time.',
    state.loopStalls,
  )
  read('quotaplane_checks_in_flight', 'Checks waiting for their answer.', state.checksInFlight)
  read('quotaplane_routes_kept', 'Descriptors whose counters are remembered.', state.routesKept)
  observeLoops(registry, state.loops)
}

function observeLoops(registry: Registry, loops: () => readonly Loop[]): void {
  const read = (name: string, help: string, value: (loop: Loop) => number): void => {
    gauge(registry, {
      name,
      help,
      labelNames: ['loop'],
      collect() {
        for (const loop of loops()) this.set({ loop: loop.name }, value(loop))
      },
    })
  }
  read('quotaplane_loop_runs', 'Steps begun by a background loop.', (loop) => loop.stats.runs)
  read('quotaplane_loop_failures', 'Steps that failed.', (loop) => loop.stats.failures)
  read(
    'quotaplane_loop_duration_seconds',
    'Duration of the last step.',
    (loop) => loop.stats.lastDurationMs / 1_000,
  )
}

function policyCells(registry: Registry): (policy: string) => PolicyCells {
  const decisions = new Tally(registry, {
    name: 'quotaplane_decisions_total',
    help: 'Decisions of single limits, by policy.',
    labels: ['policy', 'outcome', 'reason'],
  })
  const degraded = new Tally(registry, {
    name: 'quotaplane_degraded_decisions_total',
    help: 'Decisions made without the store, by why it did not decide.',
    labels: ['policy', 'reason'],
  })
  const watched = new Tally(registry, {
    name: 'quotaplane_watched_decisions_total',
    help: 'What limits that are watched and not enforced would have decided, by policy.',
    labels: ['policy', 'kind', 'outcome'],
  })
  const watchedCells = (policy: string) => {
    const byKind = new Map<string, WatchCells>()
    return (kind: 'shadow' | 'candidate'): WatchCells => {
      const cell = (outcome: string): Cell => watched.cell({ policy, kind, outcome })
      const cells = byKind.get(kind) ?? {
        allowed: cell('allowed'),
        denied: cell('denied'),
        unknown: cell('unknown'),
      }
      byKind.set(kind, cells)
      return cells
    }
  }
  const known = new Map<string, PolicyCells>()
  const create = (policy: string): PolicyCells => ({
    allowed: decisions.cell({ policy, outcome: 'allowed', reason: 'none' }),
    denied: {
      limit: decisions.cell({ policy, outcome: 'denied', reason: 'limit' }),
      cost_exceeds_capacity: decisions.cell({
        policy,
        outcome: 'denied',
        reason: 'cost_exceeds_capacity',
      }),
      deny_all: decisions.cell({ policy, outcome: 'denied', reason: 'deny_all' }),
    },
    allowedWithoutStore: decisions.cell({
      policy,
      outcome: 'allowed',
      reason: 'store_unavailable',
    }),
    deniedWithoutStore: decisions.cell({ policy, outcome: 'denied', reason: 'store_unavailable' }),
    degraded: {
      store_unavailable: degraded.cell({ policy, reason: 'store_unavailable' }),
      store_skipped: degraded.cell({ policy, reason: 'store_skipped' }),
      policy_stale: degraded.cell({ policy, reason: 'policy_stale' }),
    },
    watched: watchedCells(policy),
  })
  return (policy) => {
    const label = known.has(policy) || known.size < POLICY_LABELS_MAX ? policy : 'other'
    const cells = known.get(label) ?? create(label)
    known.set(label, cells)
    return cells
  }
}
