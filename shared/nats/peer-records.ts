import { SILENT_AFTER_MS } from '../core/ledger/constants.ts'
import { isNewer } from '../core/ledger/state.ts'
import type { RegionRecord } from '../core/ledger/types.ts'
import type { RegionId } from '../core/policy.ts'
import { REGIONS_MAX } from '../core/units.ts'
import { MalformedBytes } from '../protocol/bytes.ts'
import { ASK_SPACING_MS, isWhole } from '../protocol/record.ts'
import { type EncodedRecord, RecordAssembly } from '../protocol/record-assembly.ts'
import { decodeUpdate } from '../protocol/record-body.ts'
import type { RecordChunk } from '../protocol/record-frame.ts'
import { applyUpdate, type HeldRecord, lacksUsage } from '../protocol/record-reader.ts'

interface Peer {
  held: HeldRecord | null
  /** The newest whole update that waits, and the newest of the others. */
  whole: EncodedRecord | null
  partial: EncodedRecord | null
  heardMs: number
  askedMs: number
}

/** What became of what arrived. */
export interface Received {
  readonly records: readonly RegionRecord[]
  /** Peers that must be asked for a whole record; each is named once in a while only. */
  readonly gaps: readonly RegionId[]
  readonly malformed: readonly { readonly peer: RegionId; readonly detail: string }[]
}

/**
 * The receiver's side of the bus: the newest record of each peer, and what waits to be read.
 *
 * Of each peer at most one record, two updates that wait and one that is unfinished are held, each bounded, and only
 * what waits at the time of reading is decoded: a process that fell behind catches up in one step.
 */
export class PeerRecords {
  readonly #assembly = new RecordAssembly()
  readonly #peers = new Map<RegionId, Peer>()

  /** False when there are too many peers already. */
  put(chunk: RecordChunk, nowMs: number): boolean {
    const update = this.#assembly.add(chunk, nowMs)
    if (update === null) return true
    const peer = this.#peers.get(update.from) ?? this.#admit(update.from, nowMs)
    if (peer === null) return false
    peer.heardMs = nowMs
    const kind = isWhole(update) ? 'whole' : 'partial'
    const waiting = peer[kind]
    if (waiting === null || isNewer(update.mark, waiting.mark)) peer[kind] = update
    return true
  }

  /** Reads all that waits. */
  take(nowMs: number): Received {
    const records: RegionRecord[] = []
    const gaps: RegionId[] = []
    const malformed: { peer: RegionId; detail: string }[] = []
    for (const [region, peer] of this.#peers) {
      try {
        const isGap = readWaiting(peer, records)
        if (!isGap || nowMs - peer.askedMs < ASK_SPACING_MS) continue
        peer.askedMs = nowMs
        gaps.push(region)
      } catch (err) {
        if (!(err instanceof MalformedBytes)) throw err
        malformed.push({ peer: region, detail: err.message })
      }
    }
    return { records, gaps, malformed }
  }

  #admit(region: RegionId, nowMs: number): Peer | null {
    if (this.#peers.size >= REGIONS_MAX) {
      for (const [other, { heardMs }] of this.#peers) {
        if (nowMs - heardMs >= SILENT_AFTER_MS) this.#peers.delete(other)
      }
    }
    if (this.#peers.size >= REGIONS_MAX) return null
    const peer: Peer = {
      held: null,
      whole: null,
      partial: null,
      heardMs: nowMs,
      askedMs: Number.NEGATIVE_INFINITY,
    }
    this.#peers.set(region, peer)
    return peer
  }
}

/** True when this listener now lacks something that only a whole record brings. */
function readWaiting(peer: Peer, records: RegionRecord[]): boolean {
  const waiting = [peer.whole, peer.partial].filter((update) => update !== null)
  peer.whole = null
  peer.partial = null
  let isGap = false
  for (const { body, ...address } of waiting) {
    // Nobody has to read what is known to be old.
    if (peer.held !== null && !isNewer(address.mark, peer.held.record.mark)) continue
    const update = decodeUpdate(address, body)
    const applied = applyUpdate(peer.held, update)
    isGap ||= applied.kind === 'gap' || lacksUsage(peer.held, update)
    if (applied.kind !== 'record') continue
    peer.held = applied.held
    records.push(applied.held.record)
  }
  return isGap
}
