/**
 * What a region tells its peers, built from one state at one instant.
 *
 * Never a mix of two: fresh acknowledgements with stale rows would let a borrower use units that were taken back.
 */
import { assert } from '../assert.ts'
import type { CounterId } from '../descriptor.ts'
import type { RegionId } from '../policy.ts'
import { LOAN_TTL_MS } from './constants.ts'
import { limitOf, viewOf } from './draft.ts'
import { shareOfKey } from './flush.ts'
import type { LedgerState, Pair, SentRecord } from './state.ts'
import { type ToldRow, tellRow } from './told-rows.ts'
import type { RecordMark, RegionRecord, UsageRow } from './types.ts'

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
  const told = tellRows(state, nowMs)
  const record: RegionRecord = {
    from: state.self,
    mark,
    policyRevision: state.policyRevision,
    recovering: state.recoveringUntilMs !== null,
    adopted: adoptedOf(state),
    acks,
    pairs: pairsOf(state),
    rows: [...told.values()].map(({ row }) => row),
    usage,
  }
  return {
    record,
    state: {
      ...state,
      nextSeq: state.nextSeq + 1,
      sent: withSent(state.sent, state.nextSeq, { fence: state.fence, atMs: nowMs }),
      pairs: withAcks(state, acks),
      told,
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

function tellRows(state: LedgerState, nowMs: number): ReadonlyMap<CounterId, ToldRow> {
  const view = viewOf(state, nowMs)
  const told = new Map<CounterId, ToldRow>()
  for (const [id, key] of state.keys) {
    const { home, borrowed } = shareOfKey(view, key)
    const now = { share: home + borrowed, limit: limitOf(state, id), nowMs }
    told.set(id, tellRow(key, now, state.told.get(id)))
  }
  return told
}
