import { isNewer } from '../core/ledger/state.ts'
import type { RegionRecord } from '../core/ledger/types.ts'
import type { RegionId } from '../core/policy.ts'
import type { RecordBus } from '../core/ports.ts'
import { REGIONS_MAX } from '../core/units.ts'
import { isQuotaError } from '../errors.ts'
import {
  CHUNK_BYTES_MAX,
  decodeChunk,
  encodeRecord,
  type RefusalReason,
} from '../protocol/record.ts'
import { RecordAssembly } from '../protocol/record-assembly.ts'
import { regionOfSubject, STATE_SUBJECTS, stateSubject } from '../protocol/subjects.ts'
import type { NatsLink } from './client.ts'

/** Why a message was not handed on. `sender_mismatch`: it speaks for another region than its subject's. */
export type BusRefusal = RefusalReason | 'sender_mismatch' | 'too_many_peers'

/** Why a record was not sent. */
export type SendFailure = 'not_connected' | 'too_large'

export interface NatsRecordBusOptions {
  /** The region this process speaks for, whose records it ignores; null for a listener such as admin. */
  readonly region: RegionId | null
  readonly onSent?: (bytes: number) => void
  readonly onSendFailed?: (reason: SendFailure, detail: string) => void
  readonly onRefused?: (peer: RegionId | null, reason: BusRefusal, detail: string) => void
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
  readonly #assembly = new RecordAssembly()
  readonly #newest = new Map<RegionId, RegionRecord>()
  readonly #handlers: ((record: RegionRecord) => void)[] = []
  #payloadBytesMax = CHUNK_BYTES_MAX
  #handOn: NodeJS.Immediate | undefined

  constructor(link: NatsLink, options: NatsRecordBusOptions) {
    this.#link = link
    this.#options = options
    link.use((connection) => {
      this.#payloadBytesMax = connection.info?.max_payload ?? CHUNK_BYTES_MAX
      connection.subscribe(STATE_SUBJECTS, {
        callback: (err, message) => {
          if (err !== null) this.#options.onRefused?.(null, 'malformed', err.message)
          else this.#receive(message.subject, message.data)
        },
      })
    })
  }

  onRecord(handle: (record: RegionRecord) => void): void {
    this.#handlers.push(handle)
  }

  publish(record: RegionRecord): void {
    const subject = stateSubject(record.from)
    let bytes = 0
    try {
      const payloads = encodeRecord(record)
      const sizes = payloads.map((payload) => Buffer.byteLength(payload))
      const largest = Math.max(...sizes)
      if (largest > this.#payloadBytesMax) {
        this.#options.onSendFailed?.('too_large', `NATS takes ${this.#payloadBytesMax} bytes`)
        return
      }
      for (const payload of payloads) {
        if (!this.#link.publish(subject, payload)) {
          this.#options.onSendFailed?.('not_connected', 'NATS is away')
          return
        }
      }
      bytes = sizes.reduce((sum, size) => sum + size, 0)
    } catch (err) {
      if (!isQuotaError(err)) throw err
      this.#options.onSendFailed?.('too_large', err.message)
      return
    }
    this.#options.onSent?.(bytes)
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
    if (waiting !== undefined && !isNewer(record.mark, waiting.mark)) return
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
