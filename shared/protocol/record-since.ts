import { DEAF_AFTER_MS, SILENT_AFTER_MS } from '../core/ledger/constants.ts'
import type { RecordMark, RegionRecord } from '../core/ledger/types.ts'
import type { RegionId } from '../core/policy.ts'
import type { RecordSince } from '../core/ports.ts'
import { REGIONS_MAX } from '../core/units.ts'
import { ASK_SPACING_MS, WHOLE_EVERY_MS } from './record.ts'

const EVERYTHING: RecordSince = { rows: -1, usage: -1 }

interface Listener {
  readonly record: Pick<RegionRecord, 'mark' | 'acks'>
  readonly atMs: number
  /** The peer's session; when it first met this region's, and the first record that was sent since. */
  readonly session: string
  readonly metMs: number
  readonly metSeq: number | null
}

/**
 * Which record the next update may rest on: the newest that every peer in reach has processed.
 *
 * A peer that began a session is told everything, since its daemon may have taken over from another that heard it
 * all. One that hears nothing of this region, or stays silent, is waited for no longer than the ledger would; it asks
 * when it needs to.
 */
export class SinceKeeper {
  readonly #peers = new Map<RegionId, Listener>()
  /** Records sent within DEAF_AFTER_MS, oldest first. */
  #sent: { readonly seq: number; readonly atMs: number }[] = []
  #isAsked = false
  #askedMs = Number.NEGATIVE_INFINITY
  #wholeMs = Number.NEGATIVE_INFINITY
  #wholeSeq = -1
  #session = ''

  /** Notes what a peer acknowledges. */
  hear(record: Pick<RegionRecord, 'from' | 'mark' | 'acks'>, nowMs: number): void {
    const known = this.#peers.get(record.from)
    if (known === undefined && this.#peers.size >= REGIONS_MAX) this.#forgetSilent(nowMs)
    const session = `${record.mark.incarnation}.${record.mark.fence}`
    const isSame = known?.session === session
    this.#peers.set(record.from, {
      record,
      atMs: nowMs,
      session,
      metMs: isSame ? known.metMs : nowMs,
      metSeq: isSame ? known.metSeq : null,
    })
  }

  /** A listener could not make a record of the last update. */
  ask(): void {
    this.#isAsked = true
  }

  /** The last record could not be sent, so nobody can hold it: the next one is whole. */
  noteUnsent(): void {
    this.#wholeMs = Number.NEGATIVE_INFINITY
    this.#wholeSeq = -1
  }

  /** What the record `mark` of `self` may leave out. Called once for each record, which is then sent. */
  next(self: RegionId, mark: RecordMark, nowMs: number): RecordSince {
    this.#begin(mark, nowMs)
    this.#sent = this.#sent.filter(({ atMs }) => nowMs - atMs < DEAF_AFTER_MS)
    const acked = this.#acked(self, mark, nowMs)
    this.#sent.push({ seq: mark.seq, atMs: nowMs })
    const isAnswer = this.#isAsked && nowMs - this.#askedMs >= ASK_SPACING_MS
    if (isAnswer) {
      this.#isAsked = false
      this.#askedMs = nowMs
    }
    if (isAnswer || acked < 0) return this.#whole(mark, nowMs, EVERYTHING)
    if (nowMs - this.#wholeMs < WHOLE_EVERY_MS) return { rows: acked, usage: acked }
    return this.#whole(mark, nowMs, { rows: -1, usage: acked })
  }

  /** What was sent in an earlier session of this region is worth nothing in this one. */
  #begin({ incarnation, fence }: RecordMark, nowMs: number): void {
    const session = `${incarnation}.${fence}`
    if (session === this.#session) return
    this.#session = session
    this.#sent = []
    this.#wholeSeq = -1
    for (const [peer, listener] of this.#peers) {
      this.#peers.set(peer, { ...listener, metMs: nowMs, metSeq: null })
    }
  }

  #whole(mark: RecordMark, nowMs: number, since: RecordSince): RecordSince {
    this.#wholeMs = nowMs
    this.#wholeSeq = mark.seq
    return since
  }

  /** The newest record that every peer in reach has; -1 where one must be told everything. */
  #acked(self: RegionId, mark: RecordMark, nowMs: number): number {
    const peers = [...this.#peers].filter(([, { atMs }]) => nowMs - atMs < SILENT_AFTER_MS)
    const oldest = this.#sent[0]?.seq ?? mark.seq
    let acked = mark.seq
    for (const [peer, listener] of peers) {
      if (listener.metSeq === null) this.#peers.set(peer, { ...listener, metSeq: mark.seq })
    }
    for (const [, listener] of peers) {
      const seq = ackOf(listener, self, mark)
      if (seq === null && nowMs - listener.metMs < DEAF_AFTER_MS) return -1
      if (seq !== null && seq >= oldest) acked = Math.min(acked, seq)
    }
    return acked < mark.seq ? acked : Math.min(this.#wholeSeq, mark.seq - 1)
  }

  #forgetSilent(nowMs: number): void {
    for (const [peer, { atMs }] of this.#peers) {
      if (nowMs - atMs >= SILENT_AFTER_MS) this.#peers.delete(peer)
    }
  }
}

/** The newest record of this session that a peer acknowledges; null for none that was sent since they met. */
function ackOf({ record, metSeq }: Listener, self: RegionId, mark: RecordMark): number | null {
  const ack = record.acks[self]
  if (ack?.incarnation !== mark.incarnation || ack.fence !== mark.fence) return null
  return metSeq !== null && ack.seq >= metSeq ? ack.seq : null
}
