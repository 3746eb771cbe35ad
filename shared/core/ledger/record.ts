/**
 * What a region tells its peers, built from one state at one instant.
 *
 * Never a mix of two: fresh acknowledgements with stale rows would let a borrower use units that were taken back.
 */
import { assert } from '../assert.ts'
import type { RegionId } from '../policy.ts'
import { toMillitokens } from './claims.ts'
import { LOAN_TTL_MS } from './constants.ts'
import { viewOf } from './draft.ts'
import { shareOfKey } from './flush.ts'
import { quarantinedOf } from './rows.ts'
import type { KeyState, LedgerState, Pair, SentRecord } from './state.ts'
import type { LedgerRow, RecordMark, RecordRow, RegionRecord, UsageRow } from './types.ts'

/**
 * The region's next record and the state that remembers having sent it.
 *
 * The caller publishes it in the same turn; a record that is built and then lost is as good as one lost on the
 * way. Only between events: while shares are on their way nothing may be told.
 */
export function buildRecord(
  state: LedgerState,
  usage: readonly UsageRow[],
  nowMs: number,
): { readonly state: LedgerState; readonly record: RegionRecord } {
  assert(state.incarnation > 0, 'the ledger has started')
  assert(state.pending === null, 'nothing is told before the store has confirmed it')
  const mark = { incarnation: state.incarnation, fence: state.fence, seq: state.nextSeq }
  const acks = state.recoveringUntilMs === null ? acksOf(state) : {}
  const record: RegionRecord = {
    from: state.self,
    mark,
    policyRevision: state.policyRevision,
    recovering: state.recoveringUntilMs !== null,
    adopted: adoptedOf(state),
    acks,
    pairs: pairsOf(state),
    rows: rowsOf(state, nowMs),
    usage,
  }
  return {
    record,
    state: {
      ...state,
      nextSeq: state.nextSeq + 1,
      sent: withSent(state.sent, state.nextSeq, { fence: state.fence, atMs: nowMs }),
      pairs: withAcks(state, acks),
    },
  }
}

/** The newest record of each peer: each was processed when it was heard. */
function acksOf(state: LedgerState): Readonly<Record<RegionId, RecordMark>> {
  return Object.fromEntries([...state.heard].map(([peer, heard]) => [peer, heard.record.mark]))
}

/** Dates the acknowledgements given to borrowers: by when their records came, which is after they were sent. */
function withAcks(
  state: LedgerState,
  acks: Readonly<Record<RegionId, RecordMark>>,
): ReadonlyMap<RegionId, Pair> {
  const pairs = new Map(state.pairs)
  for (const [peer, pair] of state.pairs) {
    const ack = acks[peer]
    if (ack === undefined || ack.incarnation !== pair.lend.borrowerIncarnation) continue
    const atMs = state.heard.get(peer)?.atMs ?? Number.NEGATIVE_INFINITY
    if (atMs > pair.ackedAtMs) pairs.set(peer, { ...pair, ackedAtMs: atMs })
  }
  return pairs
}

/** Send times older than a loan can last date nothing any more. */
function withSent(
  sent: ReadonlyMap<number, SentRecord>,
  seq: number,
  added: SentRecord,
): ReadonlyMap<number, SentRecord> {
  const kept = [...sent].filter(([, { atMs }]) => added.atMs - atMs < LOAN_TTL_MS)
  return new Map([...kept, [seq, added]])
}

function adoptedOf(state: LedgerState): Readonly<Record<string, number>> {
  return Object.fromEntries(
    [...state.epochs]
      .filter(([, progress]) => progress.adoptedBy.has(state.self))
      .map(([limitId, progress]) => [String(limitId), progress.epoch]),
  )
}

function pairsOf(state: LedgerState): RegionRecord['pairs'] {
  return Object.fromEntries(
    [...state.pairs].map(([peer, { lend, borrow }]) => [
      peer,
      {
        lend: [lend.term, lend.borrowerIncarnation] as const,
        borrow: [borrow.incarnation, borrow.term, borrow.dead ? 1 : 0] as const,
      },
    ]),
  )
}

function rowsOf(state: LedgerState, nowMs: number): readonly RecordRow[] {
  const view = viewOf(state, nowMs)
  return [...state.keys.values()].map((key) => {
    const { home, borrowed } = shareOfKey(view, key)
    return recordRow(key, home + borrowed)
  })
}

function recordRow({ row, estimate, returned }: KeyState, share: number): RecordRow {
  return {
    id: row.id,
    share,
    demand: toMillitokens(estimate?.perSecond ?? 0),
    hungry: estimate?.hungry === true,
    admitted: estimate?.admitted ?? 0,
    denied: estimate?.denied ?? 0,
    returned,
    quarantined: quarantinedOf(row),
    lent: lentOf(row),
    gaveBack: gaveBackOf(row),
  }
}

function lentOf(row: LedgerRow): RecordRow['lent'] {
  return Object.fromEntries(
    Object.entries(row.lent).map(([borrower, { born, lent, returned }]) => [
      borrower,
      [born, lent, returned] as const,
    ]),
  )
}

function gaveBackOf(row: LedgerRow): RecordRow['gaveBack'] {
  return Object.fromEntries(
    Object.entries(row.borrowed).map(([lender, { born, returned }]) => [
      lender,
      [born, returned] as const,
    ]),
  )
}
