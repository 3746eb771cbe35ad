import type { NatsConnection } from 'nats'
import type { RecordMark, RegionRecord } from '../core/ledger/types.ts'
import type { RegionId } from '../core/policy.ts'
import type { RecordBus, RecordSince } from '../core/ports.ts'
import { isQuotaError } from '../errors.ts'
import { CHUNK_BYTES_MAX } from '../protocol/record.ts'
import { decodeChunk, encodeRecord, type RefusalReason } from '../protocol/record-frame.ts'
import { SinceKeeper } from '../protocol/record-since.ts'
import { RecordWriter } from '../protocol/record-writer.ts'
import { regionOfSubject, STATE_SUBJECTS, stateSubject, syncSubject } from '../protocol/subjects.ts'
import type { NatsLink } from './client.ts'
import { PeerRecords } from './peer-records.ts'

/** Why a message was not handed on. `sender_mismatch`: it speaks for another region than its subject's. */
export type BusRefusal = RefusalReason | 'sender_mismatch' | 'too_many_peers'

/** Why a record was not sent. */
export type SendFailure = 'not_connected' | 'too_large'

export interface NatsRecordBusOptions {
  /** The region this process speaks for, whose records it ignores; null for a listener such as admin. */
  readonly region: RegionId | null
  readonly onSent?: (sent: { readonly bytes: number; readonly isWhole: boolean }) => void
  readonly onSendFailed?: (reason: SendFailure, detail: string) => void
  readonly onRefused?: (peer: RegionId | null, reason: BusRefusal, detail: string) => void
  /** A record of this peer rests on one that was missed, and a whole one was asked for. */
  readonly onGap?: (peer: RegionId) => void
}

/**
 * Records over core NATS: at most once, in any order, own ones ignored.
 *
 * Works without a connection: `publish` then sends nothing and says so, and never throws for the bus's sake,
 * so that one failure cannot reach the next record. What arrives in one turn of the event loop is handed on as
 * the newest record of each peer, so a receiver that fell behind catches up in one step with bounded memory.
 */
export class NatsRecordBus implements RecordBus {
  readonly #link: NatsLink
  readonly #options: NatsRecordBusOptions
  readonly #peers = new PeerRecords()
  readonly #writer = new RecordWriter()
  readonly #keeper = new SinceKeeper()
  readonly #handlers: ((record: RegionRecord) => void)[] = []
  readonly #onQuestion: (() => void)[] = []
  #connection: NatsConnection | undefined
  #reading: NodeJS.Immediate | undefined

  constructor(link: NatsLink, options: NatsRecordBusOptions) {
    this.#link = link
    this.#options = options
    link.use((connection) => {
      this.#connection = connection
      connection.subscribe(STATE_SUBJECTS, {
        callback: (err, message) => {
          if (err !== null) this.#options.onRefused?.(null, 'malformed', err.message)
          else this.#receive(message.subject, message.data)
        },
      })
      if (options.region === null) return
      connection.subscribe(syncSubject(options.region), {
        callback: (err) => {
          if (err === null) this.#hearQuestion()
        },
      })
    })
  }

  onRecord(handle: (record: RegionRecord) => void): void {
    this.#handlers.push(handle)
  }

  onQuestion(handle: () => void): void {
    this.#onQuestion.push(handle)
  }

  sinceFor(self: RegionId, mark: RecordMark): RecordSince {
    return this.#keeper.next(self, mark, performance.now())
  }

  publish(record: RegionRecord, since: RecordSince): void {
    const update = this.#writer.next(record, since)
    let bytes = 0
    try {
      const payloads = encodeRecord(update, this.#connection?.info?.max_payload ?? CHUNK_BYTES_MAX)
      for (const payload of payloads) {
        if (!this.#link.publish(stateSubject(record.from), payload)) {
          this.#fail('not_connected', 'NATS is away')
          return
        }
        bytes += payload.byteLength
      }
    } catch (err) {
      if (!isQuotaError(err)) throw err
      this.#fail('too_large', err.message)
      return
    }
    this.#options.onSent?.({ bytes, isWhole: update.since.rows < 0 })
  }

  #fail(reason: SendFailure, detail: string): void {
    this.#keeper.noteUnsent()
    this.#options.onSendFailed?.(reason, detail)
  }

  #hearQuestion(): void {
    this.#keeper.ask()
    for (const handle of this.#onQuestion) handle()
  }

  #receive(subject: string, data: Uint8Array): void {
    const peer = regionOfSubject(subject)
    if (peer === this.#options.region) return
    const decoded = decodeChunk(data)
    if (decoded.kind === 'refused') {
      this.#options.onRefused?.(peer, decoded.reason, decoded.detail)
      return
    }
    const { chunk } = decoded
    if (chunk.from !== peer) {
      this.#options.onRefused?.(peer, 'sender_mismatch', `says it is from ${chunk.from}`)
      return
    }
    if (this.#peers.put(chunk, performance.now()))
      this.#reading ??= setImmediate(() => this.#read())
    else this.#options.onRefused?.(peer, 'too_many_peers', 'as many as a plane may have are heard')
  }

  #read(): void {
    this.#reading = undefined
    const nowMs = performance.now()
    const { records, gaps, malformed } = this.#peers.take(nowMs)
    for (const { peer, detail } of malformed) this.#options.onRefused?.(peer, 'malformed', detail)
    for (const peer of gaps) {
      this.#link.publish(syncSubject(peer), '')
      this.#options.onGap?.(peer)
    }
    for (const record of records) {
      this.#keeper.hear(record, nowMs)
      for (const handle of this.#handlers) handle(record)
    }
  }
}
