import { connect, type NatsConnection } from 'nats'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest'
import type { RegionRecord } from '../../../shared/core/ledger/types.ts'
import { NatsLink } from '../../../shared/nats/client.ts'
import { NatsRecordBus, type NatsRecordBusOptions } from '../../../shared/nats/record-bus.ts'
import { stateSubject } from '../../../shared/protocol/subjects.ts'
import { createLogger } from '../../../shared/runtime/logger.ts'
import { type NatsServer, startNats } from '../../support/nats-server.ts'
import { aRecord, NOTHING_KNOWN, payloadsOf, recordRows } from '../../support/records.ts'

const log = createLogger({ service: 'test', level: 'silent' })

let server: NatsServer
let peer: NatsConnection
let link: NatsLink
let bus: NatsRecordBus
let received: RegionRecord[]
let refused: string[]
let unsent: string[]

beforeAll(async () => {
  server = await startNats()
  peer = await connect({ servers: server.url })
})

afterAll(async () => {
  await peer?.close()
  await server?.stop()
})

beforeEach(async () => {
  join({ region: 'eu-west-1' })
  await vi.waitFor(() => expect(link.isConnected()).toBe(true))
  // A round trip: the server has the subscription.
  await peer.flush()
})

afterEach(async () => {
  await link.close()
})

function join(options: Partial<NatsRecordBusOptions>): void {
  received = []
  refused = []
  unsent = []
  link = new NatsLink({ url: server.url, name: 'test', log })
  bus = new NatsRecordBus(link, {
    region: null,
    onRefused: (from, reason) => refused.push(`${from} ${reason}`),
    onSendFailed: (reason) => unsent.push(reason),
    ...options,
  })
  bus.onRecord((record) => received.push(record))
  link.start()
}

function send(record: RegionRecord): void {
  for (const payload of payloadsOf(record)) peer.publish(stateSubject(record.from), payload)
}

describe('the record bus', () => {
  it('hands on only the newest of what came in while the process was busy (B157)', async () => {
    for (let seq = 1; seq <= 200; seq++) {
      send(aRecord({ seq }))
      send(aRecord({ from: 'ap-south-1', seq }))
    }
    await peer.flush()
    blockEventLoop(50)
    await vi.waitFor(() => {
      expect(received.filter((record) => record.mark.seq === 200)).toHaveLength(2)
    })
    expect(received.length).toBeLessThan(100)
  })

  it('ignores records of its own region, whoever sent them', async () => {
    send(aRecord({ from: 'eu-west-1', seq: 7 }))
    send(aRecord({ seq: 8 }))
    await vi.waitFor(() => expect(received.map((record) => record.from)).toEqual(['us-east-1']))
    expect(refused).toEqual([])
  })

  it('refuses a record that speaks for another region than its subject', async () => {
    const [payload = ''] = payloadsOf(aRecord({ from: 'ap-south-1' }))
    peer.publish(stateSubject('us-east-1'), payload)
    await vi.waitFor(() => expect(refused).toEqual(['us-east-1 sender_mismatch']))
    expect(received).toEqual([])
  })

  it('refuses a newer version and what is malformed, and takes the next record', async () => {
    peer.publish(stateSubject('us-east-1'), Buffer.from([0x51, 0x70, 2]))
    peer.publish(stateSubject('us-east-1'), 'nonsense')
    send(aRecord({ seq: 3 }))
    await vi.waitFor(() => expect(received).toHaveLength(1))
    expect(refused).toEqual(['us-east-1 newer_version', 'us-east-1 malformed'])
  })

  it('hands on nothing of a record that lost a chunk', async () => {
    const payloads = payloadsOf(aRecord({ seq: 4, rows: recordRows(20_000) }))
    for (const payload of payloads.slice(1)) peer.publish(stateSubject('us-east-1'), payload)
    send(aRecord({ seq: 5 }))
    await vi.waitFor(() => expect(received.map((record) => record.mark.seq)).toEqual([5]))
  })

  it('says that a record was not sent while NATS is away, and sends the next one after it is back', async () => {
    await server.halt()
    await vi.waitFor(() => expect(link.isConnected()).toBe(false), { timeout: 5_000 })
    bus.publish(aRecord({ from: 'eu-west-1', seq: 1 }), NOTHING_KNOWN)
    expect(unsent).toEqual(['not_connected'])
    await server.start()
    await vi.waitFor(() => expect(link.isConnected()).toBe(true), { timeout: 10_000 })
    await vi.waitFor(
      async () => {
        await peer.flush()
        send(aRecord({ seq: 6 }))
        expect(received.map((record) => record.mark.seq)).toContain(6)
      },
      { timeout: 10_000, interval: 100 },
    )
    bus.publish(aRecord({ from: 'eu-west-1', seq: 2 }), NOTHING_KNOWN)
    expect(unsent).toEqual(['not_connected'])
  })
})

describe('a listener that missed what a record rests on', () => {
  it('asks for a whole one, once, and the sender’s next is whole (B155)', async () => {
    let questions = 0
    const sender = new NatsLink({ url: server.url, name: 'sender', log })
    const from = new NatsRecordBus(sender, { region: 'us-east-1' })
    from.onQuestion(() => questions++)
    sender.start()
    await vi.waitFor(() => expect(sender.isConnected()).toBe(true))
    const publish = (seq: number): void => {
      const record = aRecord({ seq, rows: recordRows(3) })
      from.publish(record, from.sinceFor(record.from, record.mark))
    }
    publish(1)
    await vi.waitFor(() => expect(received).toHaveLength(1))
    await link.close()
    join({ region: 'ap-south-1' })
    await vi.waitFor(() => expect(link.isConnected()).toBe(true))
    await peer.flush()
    publish(2)
    publish(3)
    await vi.waitFor(() => expect(questions).toBe(1))
    expect(received).toEqual([])
    publish(4)
    publish(5)
    await vi.waitFor(() => expect(received.at(-1)?.mark.seq).toBe(5))
    expect(received.at(-1)?.rows).toEqual(recordRows(3))
    expect(questions).toBe(1)
    await sender.close()
  })
})

/** A process that is busy with something else reads nothing from its sockets. */
function blockEventLoop(ms: number): void {
  const endMs = performance.now() + ms
  while (performance.now() < endMs);
}
