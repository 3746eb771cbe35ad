import { connect, type NatsConnection } from 'nats'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type Links, openLinks } from '../../../services/cli/plane/links.ts'
import { type NatsMesh, startNatsMesh } from '../../support/nats-server.ts'

const REGIONS = ['us', 'eu', 'ap'] as const
type Region = (typeof REGIONS)[number]

let links: Links
let mesh: NatsMesh
const clients = new Map<string, NatsConnection>()
/** Times at which a probe of one region arrived in another, by "from>to". */
const arrivals = new Map<string, { readonly sentMs: number; readonly atMs: number }[]>()

beforeAll(async () => {
  links = await openLinks(REGIONS, 0)
  mesh = await startNatsMesh(REGIONS, ({ to, port }) => {
    links.setTarget(to, port)
    return `nats://127.0.0.1:${links.port(to)}`
  })
  await links.whenConnected(20_000)
  for (const region of REGIONS) {
    const client = await connect({ servers: mesh.servers.get(region)?.url ?? '' })
    clients.set(region, client)
    client.subscribe('probe.*', {
      callback: (_err, message) => {
        const from = message.subject.slice('probe.'.length)
        const link = `${from}>${region}`
        const seen = arrivals.get(link) ?? []
        seen.push({ sentMs: Number(message.string()), atMs: performance.now() })
        arrivals.set(link, seen)
      },
    })
    await client.flush()
  }
})

afterAll(async () => {
  await Promise.all([...clients.values()].map((client) => client.close()))
  await mesh.stop()
  await links.close()
})

/** Publishes probes in both regions until `isEnough` says so of what arrived since the call. */
async function probeUntil(
  isEnough: (arrivedSince: (from: Region, to: Region) => number) => boolean,
): Promise<void> {
  const startedMs = performance.now()
  const arrivedSince = (from: Region, to: Region): number =>
    (arrivals.get(`${from}>${to}`) ?? []).filter(({ sentMs }) => sentMs >= startedMs).length
  await expect
    .poll(
      () => {
        for (const region of REGIONS) {
          clients.get(region)?.publish(`probe.${region}`, String(performance.now()))
        }
        return isEnough(arrivedSince)
      },
      { timeout: 10_000, interval: 20 },
    )
    .toBe(true)
}

describe('links between regions', () => {
  it('carry messages between every two regions', async () => {
    await probeUntil((arrived) =>
      REGIONS.every((from) => REGIONS.every((to) => from === to || arrived(from, to) > 0)),
    )
  })

  it('lose one direction when it is cut, on no way around, and nothing of the other', async () => {
    links.cut('us', 'eu')
    await probeUntil((arrived) => {
      expect(arrived('us', 'eu')).toBe(0)
      return arrived('eu', 'us') > 40 && arrived('us', 'ap') > 40 && arrived('ap', 'eu') > 40
    })
    links.heal('us', 'eu')
    await probeUntil((arrived) => arrived('us', 'eu') > 5)
  })

  it('lose both directions when both are cut, and carry again once healed', async () => {
    links.cut('us', 'eu')
    links.cut('eu', 'us')
    await probeUntil((arrived) => {
      expect([arrived('us', 'eu'), arrived('eu', 'us')]).toEqual([0, 0])
      return arrived('us', 'ap') > 40 && arrived('eu', 'ap') > 40
    })
    links.healAll()
    await probeUntil((arrived) => arrived('us', 'eu') > 5 && arrived('eu', 'us') > 5)
  })

  it('put their delay between regions, once in each direction, and keep the order', async () => {
    links.setDelay(60)
    await probeUntil((arrived) => arrived('us', 'eu') > 10)
    links.setDelay(0)
    const seen = (arrivals.get('us>eu') ?? []).slice(-10)
    for (const { sentMs, atMs } of seen) expect(atMs - sentMs).toBeGreaterThanOrEqual(59)
    const inOrder = [...seen].sort((a, b) => a.sentMs - b.sentMs)
    expect(seen).toEqual(inOrder)
  })
})
