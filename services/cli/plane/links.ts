/**
 * The links between regions: in front of each region's NATS gateway a TCP proxy that all other gateways dial.
 *
 * A gateway connection carries messages only from the side that dialled, and names that side in its first
 * line, so a connection of A to the proxy of B is the link from A to B. Cutting it loses what A sends to B and
 * leaves the other direction alone.
 *
 * One port for each ordered pair would not do: gateways tell each other the addresses they were configured
 * with, so A would come to B by the address that was meant for C, around a cut. For the same reason a gateway
 * must advertise its proxy's address as its own.
 */
import { once } from 'node:events'
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net'
import { setTimeout as delay } from 'node:timers/promises'
import { isConnected, type LinkState, openPassage, type Passage } from './passage.ts'

const POLL_MS = 20

export interface Links {
  /** Where other gateways dial, and what the gateway of `region` advertises. */
  port(region: string): number
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

/** Starts a proxy for each of `regions` on a free loopback port. */
export async function openLinks(regions: readonly string[], delayMs: number): Promise<Links> {
  const targets = new Map<string, number>()
  const settings = { delayMs }
  const links = new Map<string, LinkState>()
  for (const from of regions) {
    for (const to of regions) {
      if (from !== to) links.set(`${from}>${to}`, { from, to, isCut: false, passages: new Set() })
    }
  }
  const find = (from: string, to: string): LinkState => {
    const link = links.get(`${from}>${to}`)
    if (link === undefined) throw new Error(`there is no link from ${from} to ${to}`)
    return link
  }
  const open = new Set<Passage>()
  const entrances = new Map<string, Server>()
  for (const region of regions) {
    const accept = (near: Socket): void => {
      const targetPort = targets.get(region)
      const linkOf = (from: string): LinkState | undefined => links.get(`${from}>${region}`)
      if (targetPort === undefined) near.destroy()
      else openPassage({ near, targetPort, settings, linkOf, open })
    }
    entrances.set(region, await listen(accept))
  }
  const all = [...links.values()]
  return {
    port: (region) => portOf(entrances.get(region)),
    setTarget: (region, port) => void targets.set(region, port),
    cut: (from, to) => cut(find(from, to)),
    heal: (from, to) => heal(find(from, to)),
    healAll: () => all.forEach(heal),
    setDelay: (ms) => {
      settings.delayMs = ms
    },
    whenConnected: (timeoutMs, signal) => whenConnected(all, timeoutMs, signal),
    async close() {
      for (const passage of open) passage.near.destroy()
      await Promise.all([...entrances.values()].map((server) => once(server.close(), 'close')))
    },
  }
}

async function listen(accept: (near: Socket) => void): Promise<Server> {
  const server = createServer(accept)
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return server
}

function portOf(server: Server | undefined): number {
  return (server?.address() as AddressInfo | undefined)?.port ?? 0
}

function cut(link: LinkState): void {
  link.isCut = true
  for (const passage of link.passages) passage.isLossy = true
}

function heal(link: LinkState): void {
  link.isCut = false
  for (const passage of link.passages) if (passage.isLossy) passage.near.destroy()
}

async function whenConnected(
  links: readonly LinkState[],
  timeoutMs: number,
  signal: AbortSignal | undefined,
): Promise<void> {
  const deadlineMs = performance.now() + timeoutMs
  const missing = (): LinkState[] => links.filter((link) => !link.isCut && !isConnected(link))
  while (missing().length > 0) {
    signal?.throwIfAborted()
    if (performance.now() > deadlineMs) {
      const names = missing().map(({ from, to }) => `${from} to ${to}`)
      throw new Error(`the NATS gateways did not connect: ${names.join(', ')}`)
    }
    await delay(POLL_MS)
  }
}
