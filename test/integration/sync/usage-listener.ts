/** Hears the records of all regions as admin does, and adds up the usage that they publish. */
import { connect, type NatsConnection } from 'nats'
import type { RegionRecord } from '../../../shared/core/ledger/types.ts'
import {
  createUsageTable,
  mergeForeign,
  type UsageTable,
} from '../../../shared/core/usage/usage-table.ts'
import { NatsLink } from '../../../shared/nats/client.ts'
import { NatsRecordBus } from '../../../shared/nats/record-bus.ts'
import { log } from './region.ts'

const LIMITS = new Map([[1, { windowMs: 1_000, usageEpoch: 0 }]])

export class UsageListener {
  readonly #link: NatsLink
  readonly records: RegionRecord[] = []
  table: UsageTable = createUsageTable('listener')

  constructor(natsUrl: string) {
    this.#link = new NatsLink({ url: natsUrl, name: 'listener', log })
    new NatsRecordBus(this.#link, { region: null }).onRecord((record) => this.#add(record))
    this.#link.start()
  }

  #add(record: RegionRecord): void {
    this.records.push(record)
    this.table = mergeForeign(
      this.table,
      { region: record.from, incarnation: record.mark.incarnation, rows: record.usage },
      { limits: LIMITS, wallMs: Date.now() },
    )
  }

  /** Tokens that `region` said it admitted, over all windows. */
  total(region: string): number {
    return totalOf(this.table, region)
  }

  close(): Promise<void> {
    return this.#link.close()
  }
}

/** Tokens that a table holds of `region`, own or foreign, over all windows and incarnations. */
export function totalOf(table: UsageTable, region: string): number {
  let total = 0
  for (const limits of [table.own, table.foreign]) {
    const windows = [...limits.values()].flatMap((limit) => [...limit.windows.values()])
    for (const counts of windows) {
      for (const count of counts.get(region)?.values() ?? []) {
        total += count.admitted - count.returned
      }
    }
  }
  return total
}

/** Repeats each message of `subject` up to three times, late and out of order, until closed. */
export async function startEcho(natsUrl: string, subject: string): Promise<NatsConnection> {
  const connection = await connect({ servers: natsUrl, noEcho: true })
  let held: Uint8Array[] = []
  connection.subscribe(subject, {
    callback: (_err, message) => {
      held.push(message.data)
      if (held.length < 3) return
      for (const payload of [...held].reverse().flatMap((one) => [one, one])) {
        connection.publish(subject, payload)
      }
      held = []
    },
  })
  return connection
}
