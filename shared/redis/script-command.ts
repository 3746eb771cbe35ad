import { Command } from 'ioredis'

/** A script call of many keys, its keys already in Redis' protocol: `bulk` of each, one after the other. */
export interface ScriptCall {
  readonly sha: string
  /** Tells a cluster's client which node has the slot. */
  readonly firstKey: string
  readonly keyCount: number
  readonly keysText: string
  /** Whether each character of keys and texts is one byte, which is quicker to write. */
  readonly isAscii?: boolean
  /** The arguments: texts first, then packed ones, then as many of text as `lastText` has in Redis' protocol. */
  readonly texts: readonly string[]
  readonly packed: readonly Uint8Array[]
  readonly lastCount?: number
  readonly lastText?: string
}

/** EVALSHA, the SHA, and the number of keys. */
const WORDS_BEFORE_KEYS = 3
const LINE_END = '\r\n'

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

function encode(call: ScriptCall): Buffer {
  const { sha, keyCount, keysText, texts, packed, lastCount = 0, lastText = '' } = call
  const coding = call.isAscii === true ? 'latin1' : 'utf8'
  const words = WORDS_BEFORE_KEYS + keyCount + texts.length + packed.length + lastCount
  let head = `*${words}\r\n$7\r\nEVALSHA\r\n${bulk(sha)}${bulk(String(keyCount))}${keysText}`
  for (const text of texts) head += bulk(text)
  // Each packed argument stands between its own length and a line's end, with which the next text begins.
  const lengths = packed.map(({ length }) => `$${length}${LINE_END}`)
  let size = Buffer.byteLength(head, coding) + Buffer.byteLength(lastText, coding)
  for (const [index, bytes] of packed.entries()) {
    size += bytes.length + LINE_END.length + (lengths[index]?.length ?? 0)
  }
  const all = Buffer.allocUnsafe(size)
  let position = all.write(head, 0, coding)
  for (const [index, bytes] of packed.entries()) {
    position += all.write(lengths[index] ?? '', position, 'latin1')
    all.set(bytes, position)
    position += bytes.length
    position += all.write(LINE_END, position, 'latin1')
  }
  all.write(lastText, position, coding)
  return all
}
