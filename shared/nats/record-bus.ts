import type { NatsConnection, Subscription } from 'nats'
import type { RegionRecord } from '../core/ledger/types.ts'
import type { RegionId } from '../core/policy.ts'
import type { RecordBus } from '../core/ports.ts'
import { REGIONS_MAX } from '../core/units.ts'
import { decodeChunk, encodeRecord, type RefusalReason } from '../protocol/record.ts'
import { compareMarks, RecordAssembly } from '../protocol/record-assembly.ts'
import { regionOfSubject, STATE_SUBJECTS, stateSubject } from '../protocol/subjects.ts'

/** Why a message was not handed on. `sender_mismatch`: it speaks for another region than its subject's. */
export type BusRefusal = RefusalReason | 'sender_mismatch' | 'too_many_peers'

/** Why a record was not sent. */
export type SendFailure = 'not_connected' | 'too_large' | 'client_error'

export interface NatsRecordBusOptions {
  /** The region this process speaks for, whose records it ignores; null for a listener such as admin. */
  readonly region: RegionId | null
  readonly onSent?: (sent: { readonly chunks: number; readonly bytes: number }) => void
  readonly onSendFailed?: (reason: SendFailure, err: unknown) => void
  readonly onRefused?: (peer: RegionId | null, reason: BusRefusal, detail: string) => void
}

/**
 * Records over core NATS: at most once, in any order, own ones ignored.
 *
 * Works without a connection: `publish` then sends nothing and says so, and never throws, so that one failure
 * cannot reach the next record. What arrives in one turn of the event loop is handed on as the newest record
 * of each peer, so a receiver that fell behind catches up in one step with bounded memory.
 */
export class NatsRecordBus implements RecordBus {
  readonly #options: NatsRecordBusOptions
  readonly #assembly = new RecordAssembly()
  readonly #newest = new Map<RegionId, RegionRecord>()
  readonly #handlers: ((record: RegionRecord) => void)[] = []
  #connection: NatsConnection | undefined
  #subscription: Subscription | undefined
  #handOn: NodeJS.Immediate | undefined

  constructor(options: NatsRecordBusOptions) {
    this.#options = options
  }

  /** Starts to listen and to send over `connection`, which reconnects by itself. */
  attach(connection: NatsConnection): void {
    this.#subscription?.unsubscribe()
    this.#connection = connection
    this.#subscription = connection.subscribe(STATE_SUBJECTS, {
      callback: (err, message) => {
        if (err !== null) this.#options.onRefused?.(null, 'malformed', err.message)
        else this.#receive(message.subject, message.data)
      },
    })
  }

  /** Stops listening and sending; the connection stays its owner's. */
  detach(): void {
    if (this.#connection?.isClosed() === false) this.#subscription?.unsubscribe()
    this.#connection = undefined
    this.#subscription = undefined
    if (this.#handOn !== undefined) clearImmediate(this.#handOn)
    this.#newest.clear()
  }

  onRecord(handle: (record: RegionRecord) => void): void {
    this.#handlers.push(handle)
  }

  publish(record: RegionRecord): void {
    const connection = this.#connection
    if (connection === undefined || connection.isClosed()) {
      this.#options.onSendFailed?.('not_connected', undefined)
      return
    }
    try {
      const payloads = encodeRecord(record)
      const sizes = payloads.map((payload) => Buffer.byteLength(payload))
      const accepted = connection.info?.max_payload ?? 0
      if (sizes.some((size) => size > accepted)) {
        this.#options.onSendFailed?.(
          'too_large',
          new Error(`the server takes ${accepted} bytes at most`),
        )
        return
      }
      const subject = stateSubject(record.from)
      for (const payload of payloads) connection.publish(subject, payload)
      const bytes = sizes.reduce((sum, size) => sum + size, 0)
      this.#options.onSent?.({ chunks: payloads.length, bytes })
    } catch (err) {
      this.#options.onSendFailed?.('client_error', err)
    }
  }

  #receive(subject: string, data: Uint8Array): void {
    const peer = regionOfSubject(subject)
    if (peer === this.#options.region) return
    const decoded = decodeChunk(data)
    if (decoded.kind === 'refused') {
      this.#options.onRefused?.(peer, decoded.reason, decoded.detail)
      return
    }
    if (decoded.chunk.from !== peer) {
      this.#options.onRefused?.(peer, 'sender_mismatch', `says it is from ${decoded.chunk.from}`)
      return
    }
    const record = this.#assembly.add(decoded.chunk, performance.now())
    if (record !== null) this.#keepNewest(record)
  }

  #keepNewest(record: RegionRecord): void {
    const waiting = this.#newest.get(record.from)
    if (waiting !== undefined && compareMarks(record.mark, waiting.mark) <= 0) return
    if (waiting === undefined && this.#newest.size >= REGIONS_MAX) {
      this.#options.onRefused?.(record.from, 'too_many_peers', `more than ${REGIONS_MAX} wait`)
      return
    }
    this.#newest.set(record.from, record)
    this.#handOn ??= setImmediate(() => this.#flush())
  }

  #flush(): void {
    this.#handOn = undefined
    const records = [...this.#newest.values()]
    this.#newest.clear()
    for (const record of records) for (const handle of this.#handlers) handle(record)
  }
}
