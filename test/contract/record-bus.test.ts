import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import type { RegionRecord } from '../../shared/core/ledger/types.ts'
import type { RecordBus } from '../../shared/core/ports.ts'
import { NatsLink } from '../../shared/nats/client.ts'
import { NatsRecordBus } from '../../shared/nats/record-bus.ts'
import { createLogger } from '../../shared/runtime/logger.ts'
import { type NatsServer, startNats, startNatsMesh } from '../support/nats-server.ts'
import { aRecord, recordRows } from '../support/records.ts'

interface Side {
  readonly bus: RecordBus
  readonly received: RegionRecord[]
}

function send({ bus }: Side, record: RegionRecord): void {
  bus.publish(record, bus.sinceFor(record.from, record.mark))
}

interface Transport {
  readonly name: string
  readonly start: () => Promise<{ readonly us: string; readonly eu: string; stop(): Promise<void> }>
}

const transports: readonly Transport[] = [
  {
    name: 'one NATS server',
    async start() {
      const server: NatsServer = await startNats()
      return { us: server.url, eu: server.url, stop: () => server.stop() }
    },
  },
  {
    name: 'a mesh of NATS servers',
    async start() {
      const mesh = await startNatsMesh(['us-east-1', 'eu-west-1'])
      const urlOf = (region: string): string => mesh.servers.get(region)?.url ?? ''
      return { us: urlOf('us-east-1'), eu: urlOf('eu-west-1'), stop: () => mesh.stop() }
    },
  },
]

describe.each(transports)('RecordBus over $name', ({ start }) => {
  let us: Side
  let eu: Side
  const links: NatsLink[] = []
  let stop: () => Promise<void>

  beforeAll(async () => {
    const transport = await start()
    stop = () => transport.stop()
    us = join(transport.us, 'us-east-1')
    eu = join(transport.eu, 'eu-west-1')
    let seq = 1
    // Gateways learn of each other's subscriptions within seconds; until then records are lost, as they may be.
    await vi.waitFor(
      () => {
        send(us, aRecord({ from: 'us-east-1', seq }))
        send(eu, aRecord({ from: 'eu-west-1', seq: seq++ }))
        expect([us.received.length, eu.received.length]).not.toContain(0)
      },
      { timeout: 15_000, interval: 100 },
    )
  })

  afterAll(async () => {
    await Promise.all(links.map((link) => link.close()))
    await stop?.()
  })

  function join(url: string, region: string): Side {
    const log = createLogger({ service: 'test', level: 'silent' })
    const link = new NatsLink({ url, name: region, log })
    links.push(link)
    const bus = new NatsRecordBus(link, { region })
    const received: RegionRecord[] = []
    bus.onRecord((record) => received.push(record))
    link.start()
    return { bus, received }
  }

  it('carries a record to the other region as it was, and not back to its own', async () => {
    const sent = aRecord({ seq: 1_000, rows: recordRows(3) })
    send(us, sent)
    await vi.waitFor(() => expect(eu.received.at(-1)).toEqual(sent), { timeout: 5_000 })
    expect(us.received.filter((record) => record.from === 'us-east-1')).toEqual([])
  })

  it('carries a record larger than one message whole', async () => {
    const sent = aRecord({ seq: 2_000, rows: recordRows(20_000) })
    send(us, sent)
    await vi.waitFor(() => expect(eu.received.at(-1)?.mark).toEqual(sent.mark), { timeout: 5_000 })
    expect(eu.received.at(-1)).toEqual(sent)
  })

  it('goes on after a record that cannot be sent (B158)', async () => {
    const loan: readonly [number, number, number] = [1, 1_000_000, 1_000_000]
    const lent = Object.fromEntries(Array.from({ length: 60 }, (_, i) => [`region-${i}`, loan]))
    const huge = recordRows(26_000).map((row) => ({ ...row, lent }))
    send(us, aRecord({ seq: 3_000, rows: huge }))
    send(us, aRecord({ seq: 3_001 }))
    await vi.waitFor(() => expect(eu.received.at(-1)?.mark.seq).toBe(3_001), { timeout: 5_000 })
  })
})
