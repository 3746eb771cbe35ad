import {
  type KeyState,
  type LedgerState,
  type Pair,
  STRANGER,
} from '../../shared/core/ledger/state.ts'
import type { LedgerEffect, LentRow, ShareWrite } from '../../shared/core/ledger/types.ts'
import type { Limit, RegionId } from '../../shared/core/policy.ts'
import { usageOf } from '../../shared/core/usage/usage-table.ts'
import { usageWindowMs } from '../../shared/core/usage-window.ts'
import { auditShares } from './audit.ts'
import type { SyncMetrics } from './metrics.ts'
import type { Plane } from './plane.ts'
import type { RegionMemory } from './region-memory.ts'

/** Limits with metrics of their own. A plane of many thousands would cost the tick and Prometheus dearly. */
const LIMITS_SHOWN_MAX = 1_000

/** Counts what moved between two states of the ledger. */
export function countMoves(
  metrics: SyncMetrics,
  before: LedgerState,
  after: LedgerState,
  effects: readonly LedgerEffect[],
): void {
  for (const [peer, pair] of after.pairs) {
    const old = before.pairs.get(peer) ?? STRANGER
    if (isTakenBack(pair, old)) metrics.reclaims.inc({ peer })
    if (isLapsed(pair, old)) metrics.lapses.inc({ peer })
  }
  for (const effect of effects) {
    if (effect.kind !== 'write-shares') continue
    for (const write of effect.writes) countUnits(metrics, before, write)
  }
}

function isTakenBack({ lend }: Pair, old: Pair): boolean {
  return lend.term > old.lend.term && lend.borrowerIncarnation === 0
}

function isLapsed({ borrow }: Pair, old: Pair): boolean {
  const isSameTerm =
    borrow.incarnation === old.borrow.incarnation && borrow.term === old.borrow.term
  return isSameTerm && borrow.dead && !old.borrow.dead
}

function countUnits(metrics: SyncMetrics, before: LedgerState, { id, row }: ShareWrite): void {
  if (row === null) return
  const old = before.keys.get(id)?.row
  for (const [peer, lent] of Object.entries(row.lent)) {
    metrics.unitsLent.inc({ peer }, growth('lent', lent, old?.lent[peer]))
  }
  for (const [peer, borrowed] of Object.entries(row.borrowed)) {
    metrics.unitsReturned.inc({ peer }, growth('returned', borrowed, old?.borrowed[peer]))
  }
}

/** By how much a cumulative figure grew; one of another term or another loan begins at zero. */
function growth(figure: 'lent' | 'returned', loan: LentRow, old: LentRow | undefined): number {
  const isSame = old?.term === loan.term && old.born === loan.born
  return Math.max(0, loan[figure] - (isSame ? old[figure] : 0))
}

/** Sets every gauge that mirrors what the daemon knows. */
export function showLedger(metrics: SyncMetrics, memory: RegionMemory, nowMs: number): void {
  const { ledger } = memory
  metrics.fence.set(ledger.fence)
  metrics.incarnation.set(ledger.incarnation)
  metrics.recovering.set(memory.isRecovering ? 1 : 0)
  metrics.trackedKeys.set(ledger.keys.size)
  metrics.untrackedKeys.set(ledger.untrackedKeys)
  for (const [alarm, count] of Object.entries(ledger.alarms)) metrics.alarms.set({ alarm }, count)
  for (const [peer] of ledger.heard) {
    metrics.suspectPeers.set({ peer }, memory.isSuspect(peer, nowMs) ? 1 : 0)
  }
  for (const [peer, heard] of ledger.heard) {
    metrics.convergenceLag.set({ peer }, (nowMs - heard.atMs) / 1_000)
  }
  showLoans(metrics, ledger, nowMs)
  showLimits(metrics, memory, nowMs)
  if (memory.ownRecord === null) return
  const ratio = auditShares(ledger, memory.ownRecord, nowMs)
  if (ratio !== null) metrics.shareSum.set(ratio)
  metrics.overAdmission.set(memory.overAdmission.observe(ledger, memory.ownRecord, nowMs))
}

function showLoans(metrics: SyncMetrics, ledger: LedgerState, nowMs: number): void {
  const keys = [...ledger.keys.values()]
  const quarantine = keys.flatMap(({ row }) => row.quarantine)
  metrics.quarantined.set(sum(quarantine, ({ units }) => units))
  metrics.hungryKeys.set(keys.filter(({ estimate }) => estimate?.hungry === true).length)
  for (const [peer, pair] of ledger.pairs) {
    const leftMs = pair.borrow.dead ? 0 : Math.max(0, (pair.untilMs ?? nowMs) - nowMs)
    const borrowed = leftMs > 0 ? sum(keys, (key) => borrowedUnits(key, peer, pair)) : 0
    metrics.loanRemaining.set({ peer }, leftMs / 1_000)
    metrics.loansOut.set(
      { peer },
      sum(keys, ({ row }) => outstanding(row.lent[peer])),
    )
    metrics.loansIn.set({ peer }, borrowed)
  }
}

function borrowedUnits({ row }: KeyState, peer: RegionId, { borrow }: Pair): number {
  const loan = row.borrowed[peer]
  const isPresent = loan?.incarnation === borrow.incarnation && loan.term === borrow.term
  return isPresent ? outstanding(loan) : 0
}

function outstanding(loan: LentRow | undefined): number {
  return loan === undefined ? 0 : loan.lent - loan.returned
}

function sum<T>(items: readonly T[], figure: (item: T) => number): number {
  return items.reduce((total, item) => total + figure(item), 0)
}

function showLimits(metrics: SyncMetrics, memory: RegionMemory, nowMs: number): void {
  const storeMs = nowMs + memory.ledger.storeOffsetMs
  metrics.usage.reset()
  metrics.epoch.reset()
  for (const { limit, path } of shownLimits(memory.plane)) {
    const label = { limit: path }
    const window = Math.floor(storeMs / usageWindowMs(limit.windowMs))
    const { own, foreign } = usageOf(memory.usage.table, {
      limitId: limit.id,
      usageEpoch: limit.usageEpoch,
      window,
    })
    metrics.usage.set({ ...label, scope: 'own' }, own.admitted - own.returned)
    metrics.usage.set({ ...label, scope: 'foreign' }, foreign.admitted - foreign.returned)
    metrics.epoch.set(label, memory.ledger.epochs.get(limit.id)?.epoch ?? limit.epoch)
  }
}

function* shownLimits(plane: Plane): Generator<{ readonly limit: Limit; readonly path: string }> {
  let left = LIMITS_SHOWN_MAX
  for (const policy of plane.policies.values()) {
    for (const limit of policy.limits) {
      if (left-- === 0) return
      yield { limit, path: `${policy.domain}/${policy.name}/${limit.name}` }
    }
  }
}
