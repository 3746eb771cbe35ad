/** One place's end of the bus, as shared/nats/record-bus.ts has it: what it sends, and what it makes of what comes. */
import type { RegionRecord } from '../../../../shared/core/ledger/types.ts'
import type { RegionId } from '../../../../shared/core/policy.ts'
import { ASK_SPACING_MS, type RecordUpdate } from '../../../../shared/protocol/record.ts'
import { encodeRecord } from '../../../../shared/protocol/record-frame.ts'
import { applyUpdate, type HeldRecord } from '../../../../shared/protocol/record-reader.ts'
import { SinceKeeper } from '../../../../shared/protocol/record-since.ts'
import { RecordWriter } from '../../../../shared/protocol/record-writer.ts'

export class RegionWire {
  readonly #writer = new RecordWriter()
  readonly #keeper = new SinceKeeper()
  readonly #held = new Map<RegionId, HeldRecord>()
  readonly #askedMs = new Map<RegionId, number>()

  send(record: RegionRecord, nowMs: number): { update: RecordUpdate; sizes: readonly number[] } {
    const since = this.#keeper.next(record.from, record.mark, nowMs)
    const update = this.#writer.next(record, since)
    return { update, sizes: encodeRecord(update).map((payload) => payload.byteLength) }
  }

  /** The record, or whether its sender must be asked for a whole one; null for neither. */
  hear(update: RecordUpdate, nowMs: number): RegionRecord | 'ask' | null {
    const { from } = update.header
    const applied = applyUpdate(this.#held.get(from) ?? null, update)
    if (applied.kind === 'old') return null
    if (applied.kind === 'gap') {
      if (nowMs - (this.#askedMs.get(from) ?? Number.NEGATIVE_INFINITY) < ASK_SPACING_MS)
        return null
      this.#askedMs.set(from, nowMs)
      return 'ask'
    }
    this.#held.set(from, applied.held)
    this.#keeper.hear(applied.held.record, nowMs)
    return applied.held.record
  }

  hearQuestion(): void {
    this.#keeper.ask()
  }
}
