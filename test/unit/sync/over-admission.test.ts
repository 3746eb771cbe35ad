import { describe, expect, it } from 'vitest'
import { OverAdmission } from '../../../services/sync/over-admission.ts'
import { createLedger, type LedgerState } from '../../../shared/core/ledger/state.ts'
import type { RegionRecord } from '../../../shared/core/ledger/types.ts'
import type { Limit } from '../../../shared/core/policy.ts'
import { aPolicy } from '../../support/memory-plane.ts'
import { aRecord, recordRows } from '../../support/records.ts'

const PER_SECOND = 1_000
const STEP_MS = 5_000
const ROUNDS = 40

interface Counts {
  readonly admitted: number
  readonly returned?: number
}

const record = (from: string, { admitted, returned = 0 }: Counts, incarnation = 1): RegionRecord =>
  aRecord({
    from,
    mark: { incarnation, fence: 1, seq: 1 },
    rows: recordRows(1).map((row) => ({ ...row, admitted, returned })),
  })

function ledgerWith(heard: RegionRecord, nowMs: number, change: Partial<Limit> = {}): LedgerState {
  const [limit] = aPolicy({ id: 7, capacity: PER_SECOND, ...change }).limits
  if (limit === undefined) throw new Error('a policy has a limit')
  const rows = new Map(heard.rows.map((row) => [row.id, row]))
  return {
    ...createLedger('us-east-1'),
    policyRevision: 1,
    limits: new Map([[7, limit]]),
    heard: new Map([[heard.from, { record: heard, rows, judgedBy: 1, atMs: nowMs }]]),
  }
}

/** What is shown in the end when two regions admit so many tokens each, in each step. */
function shown(
  perStep: (round: number) => { readonly us: Counts; readonly eu: Counts; readonly life?: number },
  change: Partial<Limit> = {},
): number {
  const audit = new OverAdmission()
  let worst = 0
  for (let round = 0; round < ROUNDS; round++) {
    const { us, eu, life = 1 } = perStep(round)
    const nowMs = round * STEP_MS
    const ledger = ledgerWith(record('eu-west-1', eu, life), nowMs, change)
    worst = audit.observe(ledger, record('us-east-1', us), nowMs)
  }
  return worst
}

const inAll = (perSecond: number, round: number) => perSecond * (STEP_MS / 1_000) * round

describe('what all regions admitted beyond a limit', () => {
  it('is 0 while both together stay at the limit, however they share it', () => {
    const even = shown((round) => ({
      us: { admitted: inAll(600, round) },
      eu: { admitted: inAll(400, round) },
    }))
    expect(even).toBe(0)
    const uneven = shown((round) => ({
      us: { admitted: inAll(1_000, round - (round % 2)) },
      eu: { admitted: inAll(0, round) },
    }))
    expect(uneven).toBe(0)
  })

  it('shows a tenth too much that goes on, of buckets and of windows', () => {
    const tenth = (round: number) => ({
      us: { admitted: inAll(700, round) },
      eu: { admitted: inAll(400, round) },
    })
    expect(shown(tenth)).toBeGreaterThan(5_000)
    expect(shown(tenth, { algorithm: 'fixed_window' })).toBeGreaterThan(5_000)
  })

  it('takes off what came back', () => {
    const returned = shown((round) => ({
      us: { admitted: inAll(1_000, round), returned: inAll(500, round) },
      eu: { admitted: inAll(500, round) },
    }))
    expect(returned).toBe(0)
  })

  it('invents nothing when a region loses its counts, or a key is tracked anew', () => {
    const lost = shown((round) => ({
      us: { admitted: inAll(500, round) },
      eu: { admitted: round < 20 ? inAll(500, round) : inAll(500, round - 20) },
      life: round < 20 ? 1 : 2,
    }))
    expect(lost).toBe(0)
  })

  it('judges nothing while regions act on different policies', () => {
    const audit = new OverAdmission()
    for (let round = 0; round < ROUNDS; round++) {
      const eu = { ...record('eu-west-1', { admitted: inAll(5_000, round) }), policyRevision: 2 }
      const nowMs = round * STEP_MS
      const us = record('us-east-1', { admitted: 0 })
      expect(audit.observe(ledgerWith(eu, nowMs), us, nowMs)).toBe(0)
    }
  })
})
