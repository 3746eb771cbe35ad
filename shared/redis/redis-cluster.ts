/**
 * A region's Redis as a cluster: one connection to each node, and the way of each call to the node that has its slot.
 *
 * The driver's own cluster client is not used: it sends commands again on its own terms, also when their callers have
 * been answered. Here a call is made again only after an answer that says that it was not carried out: MOVED, ASK,
 * TRYAGAIN (a slot whose keys are on their way) or EXECABORT; and the caller may refuse.
 */
import { once } from 'node:events'
import { setTimeout as delay } from 'node:timers/promises'
import type { Redis } from 'ioredis'
import { type HostPort, parseHostPort } from './address.ts'
import { createNode, type NodeOptions, reconnectDelayMs } from './client.ts'
import { type ClusterNode, parseClusterNodes } from './cluster-nodes.ts'
import { keySlot } from './key-slot.ts'

/** A slot moves once; more than this in one call is a loop. */
const REDIRECTS_MAX = 5

/** While the keys of a slot are on their way, a call of several of them has to wait for the last. */
const TRY_AGAIN_MS = 5
const TRIES_AGAIN_MAX = 300

/** Least time between two looks at the cluster's nodes, whatever asks for them. */
const LOOK_MS_MIN = 100

/** How long a call waits for a node that it was sent to for the first time. */
const NODE_READY_MS = 1_000

export interface RedisClusterOptions extends NodeOptions {
  readonly seeds: readonly HostPort[]
  /** `single`: when one connection ends all do, for good. */
  readonly connection: 'lasting' | 'single'
  readonly onReady?: () => void
}

export class RedisCluster {
  /** As of the driver's own clients. */
  readonly isCluster = true
  readonly #options: RedisClusterOptions
  readonly #nodes = new Map<string, Redis>()
  readonly #readying = new Map<Redis, Promise<unknown>>()
  /** Nodes that could be called once. */
  readonly #reached = new WeakSet<Redis>()
  #owners: string[] = []
  #topology: readonly ClusterNode[] = []
  #looking: Promise<void> | null = null
  #timer: NodeJS.Timeout | null = null
  #failedLooks = 0
  #isClosed = false

  constructor(options: RedisClusterOptions) {
    this.#options = options
  }

  /**
   * Looks at the cluster for the first time; a lasting one goes on looking if that fails. A single one has then a
   * connection to each master: a call finds it there, whichever node it is for, or fails because it has ended.
   */
  async connect(): Promise<void> {
    if (this.#options.connection === 'single') await this.masters()
    else this.#lookSoon(0)
  }

  /** Calls the node that has the key's slot, and follows it where it says. */
  async follow<T>(key: string, call: (node: Redis) => Promise<T>): Promise<T> {
    const slot = keySlot(key)
    let node = this.#ownerOf(slot) ?? (await this.#findOwner(slot))
    let isAsking = false
    const patience = new Patience()
    for (;;) {
      try {
        // Both leave in one turn, so nothing comes between them.
        if (isAsking) node.call('ASKING').catch(ignored)
        return await call(node)
      } catch (err) {
        const answer = redirectOf(err)
        if (answer === null || patience.isOver(answer)) throw err
        isAsking = answer.kind === 'ask'
        node = await this.#nodeAfter(answer, slot, node)
      }
    }
  }

  /** Every master, connected. */
  async masters(): Promise<readonly Redis[]> {
    await this.look()
    const masters = this.#topology.filter(({ isMaster }) => isMaster)
    return await Promise.all(masters.map(({ address }) => this.#ready(address)))
  }

  /** The masters that have the slots of these keys, each once. */
  async ownersOf(keys: readonly string[]): Promise<readonly Redis[]> {
    const addresses = new Set(keys.map((key) => this.#owners[keySlot(key)]))
    return await Promise.all([...addresses].map((address) => this.#ready(address ?? '')))
  }

  /** Runs `write`; what it sends leaves in one write of each socket. */
  corked(write: () => void): void {
    const streams = [...this.#nodes.values()].map(({ stream }) => stream)
    for (const stream of streams) stream?.cork()
    write()
    for (const stream of streams) stream?.uncork()
  }

  disconnect(): void {
    this.#isClosed = true
    if (this.#timer !== null) clearTimeout(this.#timer)
    for (const node of this.#nodes.values()) node.disconnect()
  }

  /** Asks a node that answers which nodes there are. Calls meanwhile share the asking. */
  look(): Promise<void> {
    this.#looking ??= this.#lookOnce().finally(() => {
      this.#looking = null
    })
    return this.#looking
  }

  async #lookOnce(): Promise<void> {
    const known = [...this.#nodes].filter(([, node]) => node.status === 'ready')
    const seeds = this.#options.seeds.map(({ host, port }) => `${host}:${port}`)
    let failure: unknown
    for (const address of new Set([...known.map(([one]) => one), ...seeds])) {
      try {
        const node = await this.#ready(address)
        this.#learn(parseClusterNodes(String(await node.cluster('NODES')), address))
        return
      } catch (err) {
        failure = err
      }
    }
    throw failure
  }

  #learn(topology: readonly ClusterNode[]): void {
    this.#topology = topology
    const owners: string[] = []
    for (const { address, ranges } of topology) {
      for (const [first, last] of ranges) {
        for (let slot = first; slot <= last; slot++) owners[slot] = address
      }
    }
    this.#owners = owners
    const addresses = new Set(topology.map(({ address }) => address))
    for (const [address, node] of this.#nodes) {
      if (addresses.has(address)) continue
      this.#nodes.delete(address)
      node.disconnect()
    }
    for (const { address, isMaster } of topology) if (isMaster) this.#nodeAt(address)
  }

  #lookSoon(afterMs: number): void {
    if (this.#timer !== null || this.#isClosed || this.#options.connection === 'single') return
    this.#timer = setTimeout(() => {
      this.#timer = null
      this.look().then(
        () => {
          this.#failedLooks = 0
          // As long as a master is away, another may take its place.
          const isWhole = this.#topology.every(
            ({ address, isMaster }) => !isMaster || this.#nodes.get(address)?.status === 'ready',
          )
          if (!isWhole) this.#lookSoon(reconnectDelayMs(1))
        },
        () => this.#lookSoon(reconnectDelayMs(++this.#failedLooks)),
      )
    }, afterMs)
    this.#timer.unref()
  }

  #ownerOf(slot: number): Redis | null {
    const address = this.#owners[slot]
    return address === undefined ? null : (this.#nodes.get(address) ?? null)
  }

  async #findOwner(slot: number): Promise<Redis> {
    await this.look()
    const address = this.#owners[slot]
    if (address === undefined) throw new Error('no node of the cluster has this slot')
    return await this.#ready(address)
  }

  async #nodeAfter(answer: Redirect, slot: number, asked: Redis): Promise<Redis> {
    if (answer.kind === 'again') {
      await delay(TRY_AGAIN_MS)
      return this.#ownerOf(slot) ?? asked
    }
    if (answer.kind === 'lost') return await this.#findOwner(slot)
    const { host = '' } = asked.options
    const address = answer.address.startsWith(':') ? `${host}${answer.address}` : answer.address
    if (answer.kind === 'moved') {
      this.#owners[slot] = address
      this.#lookSoon(LOOK_MS_MIN)
    }
    return await this.#ready(address)
  }

  /** The node, once it can be called. */
  async #ready(address: string): Promise<Redis> {
    const node = this.#nodeAt(address)
    if (node.status === 'ready') return node
    // One wait for all who want it. Rejects with the node's error, too.
    const known = this.#readying.get(node)
    const signal = AbortSignal.timeout(NODE_READY_MS)
    const readying =
      known ?? once(node, 'ready', { signal }).finally(() => this.#readying.delete(node))
    this.#readying.set(node, readying)
    await readying
    return node
  }

  #nodeAt(address: string): Redis {
    const known = this.#nodes.get(address)
    if (known !== undefined) return known
    const at = parseHostPort(address)
    if (at === null || this.#isClosed) throw new Error('Connection is closed.')
    const node = createNode(this.#options, at, this.#options.connection)
    this.#nodes.set(address, node)
    node.on('ready', () => {
      this.#reached.add(node)
      this.#options.onReady?.()
    })
    node.on('close', () => this.#lost(address, node))
    if (this.#options.connection === 'single') node.connect().catch(ignored)
    return node
  }

  /** A node that was let go on purpose is none of this cluster any more. */
  #lost(address: string, node: Redis): void {
    if (this.#isClosed || this.#nodes.get(address) !== node) return
    if (this.#options.connection === 'lasting') this.#lookSoon(LOOK_MS_MIN)
    else if (this.#reached.has(node)) this.disconnect()
    // Nothing was ever sent to it, so nothing is in doubt: the next address may lead to the cluster.
    else this.#nodes.delete(address)
  }
}

interface Redirect {
  readonly kind: 'moved' | 'ask' | 'again' | 'lost'
  /** Of the first two. */
  readonly address: string
}

/** How often one call may be sent elsewhere or told to wait. */
class Patience {
  #redirects = 0
  #tries = 0

  isOver({ kind }: Redirect): boolean {
    if (kind === 'again') return ++this.#tries > TRIES_AGAIN_MAX
    return ++this.#redirects > REDIRECTS_MAX
  }
}

/** Where an error says to go instead; null where it says nothing of the kind. */
function redirectOf(err: unknown): Redirect | null {
  if (!(err instanceof Error)) return null
  const [word, , address = ''] = err.message.split(' ')
  if (word === 'MOVED') return { kind: 'moved', address }
  if (word === 'ASK') return { kind: 'ask', address }
  if (word === 'TRYAGAIN') return { kind: 'again', address }
  // A transaction does not say why, but a slot that is elsewhere is the reason that it may have.
  return word === 'EXECABORT' ? { kind: 'lost', address } : null
}

/** The call itself tells of the failure. */
function ignored(): void {}
