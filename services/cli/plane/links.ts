/**
 * The links between regions: for each ordered pair a TCP proxy between two NATS gateways.
 *
 * A gateway connection carries messages only from the side that dialled, so the proxy that region A dials to
 * reach B is the link from A to B. Cutting it loses what A sends to B and leaves the other direction alone.
 * The gateways advertise an address that nobody listens on, so that gossip leads around no proxy.
 */
import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net'
import { setTimeout as delay } from 'node:timers/promises'
import { DelayLine } from './delay-line.ts'

const POLL_MS = 20

export interface Links {
  /** Where the gateway of `from` must dial to reach `to`. */
  port(from: string, to: string): number
  /** Says where the gateway of `region` listens. */
  setTarget(region: string, port: number): void
  /** Loses everything sent from `from` to `to`: silently on open connections, as a network does. */
  cut(from: string, to: string): void
  /** Lets the link carry again; connections that lost bytes are reset, so the gateways dial anew. */
  heal(from: string, to: string): void
  healAll(): void
  /** One-way delay between every two regions from here on. */
  setDelay(delayMs: number): void
  /** Resolves once every uncut link is connected; rejects after `timeoutMs`, naming the links that are not. */
  whenConnected(timeoutMs: number, signal?: AbortSignal): Promise<void>
  close(): Promise<void>
}

/** One gateway connection through a link. */
interface Passage {
  readonly near: Socket
  readonly far: Socket
  isLossy: boolean
  /** The far gateway has answered. */
  isOpen: boolean
}

interface Link {
  readonly from: string
  readonly to: string
  readonly server: Server
  readonly port: number
  readonly passages: Set<Passage>
  isCut: boolean
}

/** Starts a link for each ordered pair of `regions` on a free loopback port. */
export async function openLinks(regions: readonly string[], delayMs: number): Promise<Links> {
  const targets = new Map<string, number>()
  const settings = { delayMs }
  const links = new Map<string, Link>()
  for (const from of regions) {
    for (const to of regions) {
      if (from === to) continue
      links.set(`${from}>${to}`, await openLink({ from, to }, targets, settings))
    }
  }
  const find = (from: string, to: string): Link => {
    const link = links.get(`${from}>${to}`)
    if (link === undefined) throw new Error(`there is no link from ${from} to ${to}`)
    return link
  }
  const all = [...links.values()]
  return {
    port: (from, to) => find(from, to).port,
    setTarget: (region, port) => void targets.set(region, port),
    cut: (from, to) => cut(find(from, to)),
    heal: (from, to) => heal(find(from, to)),
    healAll: () => all.forEach(heal),
    setDelay: (ms) => {
      settings.delayMs = ms
    },
    async whenConnected(timeoutMs, signal) {
      const deadlineMs = performance.now() + timeoutMs
      const missing = (): Link[] => all.filter((link) => !link.isCut && !isConnected(link))
      while (missing().length > 0) {
        signal?.throwIfAborted()
        if (performance.now() > deadlineMs) {
          const names = missing().map(({ from, to }) => `${from} to ${to}`)
          throw new Error(`the NATS gateways did not connect: ${names.join(', ')}`)
        }
        await delay(POLL_MS)
      }
    },
    async close() {
      await Promise.all(all.map(closeLink))
    },
  }
}

async function openLink(
  ends: { readonly from: string; readonly to: string },
  targets: ReadonlyMap<string, number>,
  settings: { readonly delayMs: number },
): Promise<Link> {
  const passages = new Set<Passage>()
  const server = createServer((near) => {
    const port = targets.get(ends.to)
    if (link.isCut || port === undefined) near.destroy()
    else passages.add(openPassage(near, port, settings, (passage) => passages.delete(passage)))
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  const link: Link = { ...ends, server, port, passages, isCut: false }
  return link
}

function openPassage(
  near: Socket,
  targetPort: number,
  settings: { readonly delayMs: number },
  onClose: (passage: Passage) => void,
): Passage {
  const far = connect({ port: targetPort, host: '127.0.0.1', noDelay: true })
  near.setNoDelay(true)
  const passage: Passage = { near, far, isLossy: false, isOpen: false }
  const close = (): void => {
    near.destroy()
    far.destroy()
    onClose(passage)
  }
  for (const [source, sink] of [
    [near, far],
    [far, near],
  ] as const) {
    const line = new DelayLine(source, sink)
    source.on('data', (chunk: Buffer) => {
      if (passage.isLossy) return
      if (source === far) passage.isOpen = true
      line.push(chunk, settings.delayMs)
    })
    source.on('error', close)
    source.on('close', close)
  }
  return passage
}

function cut(link: Link): void {
  link.isCut = true
  for (const passage of link.passages) passage.isLossy = true
}

function heal(link: Link): void {
  link.isCut = false
  for (const passage of link.passages) if (passage.isLossy) passage.near.destroy()
}

function isConnected(link: Link): boolean {
  return [...link.passages].some((passage) => passage.isOpen && !passage.isLossy)
}

async function closeLink(link: Link): Promise<void> {
  for (const passage of link.passages) passage.near.destroy()
  await once(link.server.close(), 'close')
}
