import { connect, type Socket } from 'node:net'
import { DelayLine } from './delay-line.ts'

/** One gateway connection through a proxy. */
export interface Passage {
  readonly near: Socket
  readonly far: Socket
  isLossy: boolean
}

/** What is known of the link from one region to another. */
export interface LinkState {
  readonly from: string
  readonly to: string
  isCut: boolean
  readonly passages: Set<Passage>
}

export interface PassageOptions {
  /** The gateway that dialled. */
  readonly near: Socket
  readonly targetPort: number
  readonly settings: { readonly delayMs: number }
  /** The link that a dialling region uses. */
  readonly linkOf: (from: string) => LinkState | undefined
  /** Every open passage, those included of which the region is not known yet. */
  readonly open: Set<Passage>
}

/** The dialling gateway names itself in the first line it sends: `CONNECT {…,"gateway":"us-east-1",…}`. */
const DIALLER = /^CONNECT [^\r\n]*"gateway":"([^"]+)"[^\r\n]*\r\n/

/** Longest first line that is waited for; a real one has a few hundred bytes. */
const FIRST_LINE_BYTES_MAX = 64 * 1024

/** True when a gateway has introduced itself on the link and nothing was lost since. */
export function isConnected(link: LinkState): boolean {
  return [...link.passages].some((passage) => !passage.isLossy)
}

/**
 * Joins a connection to the target and passes bytes with the links' delay, once in each direction.
 *
 * What the dialler sends is held until it has named its region; then the connection belongs to that link, and
 * is refused when the link is cut.
 */
export function openPassage(options: PassageOptions): void {
  const { near, settings, open } = options
  const far = connect({ port: options.targetPort, host: '127.0.0.1', noDelay: true })
  near.setNoDelay(true)
  const passage: Passage = { near, far, isLossy: false }
  open.add(passage)
  const outward = new DelayLine(near, far)
  const inward = new DelayLine(far, near)
  let link: LinkState | undefined
  let firstBytes = Buffer.alloc(0)

  const close = (): void => {
    near.destroy()
    far.destroy()
    open.delete(passage)
    link?.passages.delete(passage)
  }
  const introduce = (chunk: Buffer): void => {
    firstBytes = Buffer.concat([firstBytes, chunk])
    const name = DIALLER.exec(firstBytes.toString('latin1'))?.[1]
    if (name === undefined) {
      if (firstBytes.length > FIRST_LINE_BYTES_MAX) close()
      return
    }
    link = options.linkOf(name)
    if (link === undefined || link.isCut) {
      close()
      return
    }
    link.passages.add(passage)
    outward.push(firstBytes, settings.delayMs)
  }
  near.on('data', (chunk: Buffer) => {
    if (passage.isLossy) return
    if (link === undefined) introduce(chunk)
    else outward.push(chunk, settings.delayMs)
  })
  far.on('data', (chunk: Buffer) => {
    if (!passage.isLossy) inward.push(chunk, settings.delayMs)
  })
  for (const socket of [near, far]) socket.on('error', close).on('close', close)
}
