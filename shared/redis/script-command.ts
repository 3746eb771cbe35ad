import { Command } from 'ioredis'
import type { Doubles } from './doubles.ts'

/** A script call of many keys, its keys already in Redis' protocol: `bulk` of each, one after the other. */
export interface ScriptCall {
  readonly sha: string
  /** Tells a cluster's client which node has the slot. */
  readonly firstKey: string
  readonly keyCount: number
  readonly keysText: string
  readonly version: number
  readonly limits: Doubles
  readonly items: Doubles
}

const ARG_COUNT = 3
/** EVALSHA, the SHA, and the number of keys. */
const WORDS_BEFORE_KEYS = 3
const LINE_END = 2

/**
 * EVALSHA, written in one piece.
 *
 * The client would encode each key and argument apart and join them, which costs more than a check's decision.
 * Its bytes are its own, so a cluster's client may send it again to the node that has the slot.
 */
export class ScriptCommand extends Command {
  readonly #bytes: Buffer

  constructor(call: ScriptCall) {
    super('evalsha', [call.sha, 1, call.firstKey], { replyEncoding: null })
    this.#bytes = encode(call)
  }

  override toWritable(): Buffer {
    return this.#bytes
  }
}

/** A text as a bulk string of Redis' protocol. */
export function bulk(text: string): string {
  return `$${Buffer.byteLength(text)}\r\n${text}\r\n`
}

function encode({ sha, keyCount, keysText, version, limits, items }: ScriptCall): Buffer {
  const words = WORDS_BEFORE_KEYS + keyCount + ARG_COUNT
  const head = `*${words}\r\n$7\r\nEVALSHA\r\n${bulk(sha)}${bulk(String(keyCount))}${keysText}${bulk(String(version))}$${limits.byteLength}\r\n`
  const middle = `\r\n$${items.byteLength}\r\n`
  const headBytes = Buffer.byteLength(head)
  const bytes = Buffer.allocUnsafe(
    headBytes + limits.byteLength + middle.length + items.byteLength + LINE_END,
  )
  let position = bytes.write(head, 0)
  position = limits.copyTo(bytes, position)
  position += bytes.write(middle, position, 'latin1')
  position = items.copyTo(bytes, position)
  bytes.write('\r\n', position, 'latin1')
  return bytes
}
