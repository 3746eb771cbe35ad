/**
 * Broken variants of the protocol: each leaves one rule out, from outside, by changing what a daemon hears,
 * remembers or does. Checks that none of them failed would be worth nothing.
 */
import { floorOf } from '../../shared/core/base-split.ts'
import { parseCounterId } from '../../shared/core/counter-id.ts'
import { LENDER_WAIT_MS, LOAN_TTL_MS } from '../../shared/core/ledger/constants.ts'
import { outstandingOf } from '../../shared/core/ledger/rows.ts'
import type { LedgerState, Pair } from '../../shared/core/ledger/state.ts'
import type {
  Continuity,
  LedgerEvent,
  RegionRecord,
  ShareOutcome,
} from '../../shared/core/ledger/types.ts'

/** Where a simulated daemon can be made to break a rule. */
export interface Mutant {
  readonly onRecord?: (record: RegionRecord, state: LedgerState) => RegionRecord
  readonly beforeStep?: (state: LedgerState, event: LedgerEvent, nowMs: number) => LedgerState
  readonly afterStep?: (state: LedgerState, event: LedgerEvent, nowMs: number) => LedgerState
  readonly onSend?: (record: RegionRecord, state: LedgerState) => RegionRecord
  readonly onOutcome?: (outcome: ShareOutcome) => ShareOutcome
  readonly continuity?: (continuity: Continuity) => Continuity
  /** Pairs never reach the store. */
  readonly losesPairs?: boolean
  /** A write without a reply counts as done. */
  readonly ignoresDoubt?: boolean
  /** A write that arrives after the daemon took a new fence is not refused. */
  readonly skipsFence?: boolean
  /** A leader that lost its lease and its store goes on with both as if it had them. */
  readonly outlivesLease?: boolean
  /** A daemon begins with the sequence numbers that the last one began with. */
  readonly reusesSeq?: boolean
  /** A record tells of what the store has not confirmed. */
  readonly tellsFirst?: boolean
  /** An operator's certificate counts at once. */
  readonly certifiesAtOnce?: boolean
  /** A region that was removed comes back with what its store held. */
  readonly keepsRemovedState?: boolean
  /** A region that lost its memory is told of the plane by a copy that lags behind. */
  readonly readsStalePlane?: boolean
  /** A record has the rows of the one before beside terms and acknowledgements of its own. */
  readonly tellsOldRows?: boolean
}

export const FAITHFUL: Mutant = {}

const datedAtReceipt: Mutant = {
  afterStep: (state, event, nowMs) => {
    const pair = event.kind === 'record' ? state.pairs.get(event.record.from) : undefined
    if (event.kind !== 'record' || pair === undefined || pair.untilMs === null) return state
    return withPair(state, event.record.from, { ...pair, untilMs: nowMs + LOAN_TTL_MS })
  },
}

/** The lapse is told, so the lender takes its units back; then a late acknowledgement of the term is believed. */
const revived: Mutant = {
  beforeStep: (state, event) => {
    if (event.kind !== 'record') return state
    const { from, mark, pairs } = event.record
    const pair = state.pairs.get(from)
    const isSameTerm =
      pair?.borrow.incarnation === mark.incarnation &&
      pairs[state.self]?.lend[0] === pair.borrow.term
    if (pair === undefined || !isSameTerm) return state
    return withPair(state, from, { ...pair, borrow: { ...pair.borrow, dead: false } })
  },
}

const unaddressed: Mutant = {
  onRecord: (record, state) => {
    const pair = record.pairs[state.self]
    if (pair === undefined) return record
    const lend = [pair.lend[0], state.incarnation] as const
    return { ...record, pairs: { ...record.pairs, [state.self]: { ...pair, lend } } }
  },
}

const unscopedReturns: Mutant = {
  onRecord: (record, state) => {
    const pair = record.pairs[state.self]
    const term = state.pairs.get(record.from)?.lend.term ?? 0
    if (pair === undefined) return record
    const borrow = [state.incarnation, term, pair.borrow[2]] as const
    const rows = record.rows.map((row) => {
      const loan = state.keys.get(row.id)?.row.lent[record.from]
      const gaveBack = row.gaveBack[state.self]
      if (loan === undefined || gaveBack === undefined) return row
      const units = Math.min(loan.lent, gaveBack[1])
      return { ...row, gaveBack: { ...row.gaveBack, [state.self]: [loan.born, units] as const } }
    })
    return { ...record, rows, pairs: { ...record.pairs, [state.self]: { ...pair, borrow } } }
  },
}

/** Figures of a row's former life count for the one that it has. */
const unbornReturns: Mutant = {
  onRecord: (record, state) => {
    const rows = record.rows.map((row) => {
      const loan = state.keys.get(row.id)?.row.lent[record.from]
      const gaveBack = row.gaveBack[state.self]
      if (loan === undefined || gaveBack === undefined) return row
      const units = Math.min(loan.lent, gaveBack[1])
      return { ...row, gaveBack: { ...row.gaveBack, [state.self]: [loan.born, units] as const } }
    })
    return { ...record, rows }
  },
}

/** What came to nothing is forgotten by the borrower, while a record of its lender may still tell of it. */
const dropsFirst: Mutant = {
  afterStep: (state) => {
    const keys = new Map(state.keys)
    for (const [id, key] of keys) {
      const open = Object.entries(key.row.borrowed).filter(([, loan]) => loan.lent > loan.returned)
      if (open.length === Object.keys(key.row.borrowed).length) continue
      keys.set(id, { ...key, row: { ...key.row, borrowed: Object.fromEntries(open) } })
    }
    return { ...state, keys }
  },
}

const unquarantined: Mutant = {
  afterStep: (state) => {
    const keys = new Map(state.keys)
    for (const [id, key] of keys) {
      const quarantine = key.row.quarantine.map((part) => ({ ...part, untilStoreMs: 0 }))
      if (quarantine.length > 0) keys.set(id, { ...key, row: { ...key.row, quarantine } })
    }
    return { ...state, keys }
  },
}

const trustsFoundLeases: Mutant = {
  afterStep: (state, event, nowMs) => {
    if (event.kind !== 'started' || event.continuity !== 'kept') return state
    const pairs = new Map(state.pairs)
    const keys = new Map(state.keys)
    for (const [peer, stored] of Object.entries(event.pairs)) {
      pairs.set(peer, { ...stored, ackedAtMs: nowMs, untilMs: nowMs + LOAN_TTL_MS })
    }
    for (const row of event.rows) {
      const key = keys.get(row.id)
      if (key !== undefined) keys.set(row.id, { ...key, row })
    }
    return { ...state, pairs, keys }
  },
}

const forgetsWaiting: Mutant = {
  afterStep: (state, event, nowMs) => {
    if (event.kind !== 'started') return state
    return [...state.pairs].reduce(
      (all, [peer, pair]) =>
        withPair(all, peer, { ...pair, ackedAtMs: nowMs - 2 * LENDER_WAIT_MS }),
      state,
    )
  },
}

const impatientLender: Mutant = {
  beforeStep: (state, event) => {
    if (event.kind !== 'tick') return state
    return [...state.pairs].reduce((all, [peer, pair]) => {
      return withPair(all, peer, { ...pair, ackedAtMs: pair.ackedAtMs - LOAN_TTL_MS / 2 })
    }, state)
  },
}

const growsAtOnce: Mutant = {
  onRecord: (record, state) => {
    const epochs = [...state.epochs].map(([id, { epoch }]) => [String(id), epoch])
    return { ...record, adopted: Object.fromEntries(epochs) }
  },
}

const adoptsAtOnce: Mutant = {
  afterStep: (state) => {
    const epochs = new Map(state.epochs)
    for (const [id, epoch] of epochs) {
      epochs.set(id, { ...epoch, adoptedBy: new Set([...epoch.adoptedBy, state.self]) })
    }
    return { ...state, epochs }
  },
}

const majorityAnswers: Mutant = {
  beforeStep: (state, _event, nowMs) => {
    if (state.recoveringUntilMs === null) return state
    const answers = state.members.filter((region) => {
      const claim = state.heard.get(region)?.record.pairs[state.self]?.borrow
      return region === state.self || (claim?.[0] ?? 0) >= state.incarnation
    })
    const isMajority = 2 * answers.length > state.members.length
    return isMajority ? { ...state, recoveringUntilMs: nowMs } : state
  },
}

const ignoresQuarantine: Mutant = {
  afterStep: (state, _event, nowMs) => {
    const epochs = new Map(state.epochs)
    for (const [id, progress] of epochs) {
      const limit = state.limits?.get(id)
      const drainedAt = progress.drainedAtStoreMs ?? Number.POSITIVE_INFINITY
      const isBlind = state.recoveringUntilMs !== null || state.drains.has(id)
      if (limit === undefined || isBlind || nowMs + state.storeOffsetMs < drainedAt) continue
      const base = limit.base[state.self] ?? 0
      const fits = [...state.keys.values()].every(
        ({ row }) =>
          parseCounterId(row.id)?.limitId !== id ||
          outstandingOf(row) <= base - floorOf(base, limit),
      )
      if (!fits) continue
      epochs.set(id, { ...progress, adoptedBy: new Set([...progress.adoptedBy, state.self]) })
    }
    return { ...state, epochs }
  },
}

/** What a daemon knew before it heard of a peer's new life: the mutant below goes on with that. */
const beforeNewLife = new WeakMap<LedgerEvent, LedgerState>()

const answersUnheeding: Mutant = {
  beforeStep: (state, event) => {
    if (event.kind === 'record') beforeNewLife.set(event, state)
    return state
  },
  afterStep: (state, event) => {
    const before = beforeNewLife.get(event)
    if (event.kind !== 'record' || before === undefined) return state
    const { from, mark, pairs } = event.record
    const pair = before.pairs.get(from)
    const isAddressed = pairs[state.self]?.lend[1] === state.incarnation
    if (pair === undefined || isAddressed || mark.incarnation <= pair.borrow.incarnation)
      return state
    const keys = new Map(state.keys)
    for (const [id, key] of before.keys) {
      const now = keys.get(id)
      const loan = key.row.borrowed[from]
      if (now === undefined || loan === undefined) continue
      const borrowed = { ...now.row.borrowed, [from]: loan }
      keys.set(id, { ...now, row: { ...now.row, borrowed } })
    }
    return withPair({ ...state, keys }, from, { ...pair, ackedAtMs: pair.ackedAtMs })
  },
  onSend: (record, state) => {
    const answered = Object.entries(record.pairs).map(([peer, pair]) => {
      const incarnation = state.heard.get(peer)?.record.mark.incarnation ?? pair.borrow[0]
      return [peer, { ...pair, borrow: [incarnation, pair.borrow[1], pair.borrow[2]] as const }]
    })
    return { ...record, pairs: Object.fromEntries(answered) }
  },
}

/** Either alone is harmless: fences tell sequence numbers apart that were used twice. */
const confusedSeq: Mutant = {
  reusesSeq: true,
  onRecord: (record, state) => {
    const ack = record.acks[state.self]
    if (ack === undefined) return record
    const { fence } = state.sent.get(ack.seq) ?? ack
    return { ...record, acks: { ...record.acks, [state.self]: { ...ack, fence } } }
  },
}

/** By the rule that each leaves out. */
export const MUTANTS = {
  'a lease is dated by the receipt of the acknowledgement': datedAtReceipt,
  'a lapsed term is revived by a late acknowledgement': revived,
  'a loan is not addressed to an incarnation': unaddressed,
  'returns are not scoped by term and birth': unscopedReturns,
  'returns are not scoped by the birth of their row': unbornReturns,
  'a borrower forgets a loan before its lender does': dropsFirst,
  'a record joins new acknowledgements with rows of before': { tellsOldRows: true },
  'a region that lost its memory is told of an older base split': { readsStalePlane: true },
  'a region that lost its memory does not wait': {
    continuity: (continuity: Continuity) => (continuity === 'lost' ? 'first' : continuity),
  },
  'growers do not wait for donors to adopt': growsAtOnce,
  'a donor says that it adopted before it has': adoptsAtOnce,
  'units of a lapsed loan are not quarantined': unquarantined,
  'a lender does not wait for the slowest clock': impatientLender,
  'a daemon that restarted trusts the leases that it finds': trustsFoundLeases,
  'a lender that restarted does not wait again': forgetsWaiting,
  'terms are not durable': { losesPairs: true },
  'a write without a reply counts as done': { ignoresDoubt: true },
  'a late write of an older fence is not refused': { skipsFence: true },
  'a leader goes on without its lease': { outlivesLease: true },
  'sequence numbers are used again and fences do not tell them apart': confusedSeq,
  'a term is told to be dead before the share is smaller': { tellsFirst: true },
  'a donor adopts although units of it are quarantined': ignoresQuarantine,
  'a certificate of removal counts at once': { certifiesAtOnce: true },
  'a region that was removed comes back with its state': { keepsRemovedState: true },
  'a recovery ends with the answers of a majority': majorityAnswers,
  'an answer is given by whoever hears, without letting go of loans': answersUnheeding,
  'a refused shrink is told of nevertheless': { onOutcome: () => 'written' as const },
} satisfies Record<string, Mutant>

export type MutantName = keyof typeof MUTANTS

function withPair(state: LedgerState, peer: string, pair: Pair): LedgerState {
  return { ...state, pairs: new Map(state.pairs).set(peer, pair) }
}
