/** Request ids as Redis keeps them: of one length, however long they are. 128 bits, so that nobody finds two alike. */
import { createHash } from 'node:crypto'

const HOLDER_WORDS = 4
const WORD_BYTES = 4

/** The id as scripts take it, HOLDER_FORMAT. */
export function holderWords(requestId: string): readonly number[] {
  const digest = digestOf(requestId)
  return Array.from({ length: HOLDER_WORDS }, (_, word) => digest.readUInt32LE(word * WORD_BYTES))
}

/** The id as a part of a key. */
export function holderDigest(requestId: string): string {
  return digestOf(requestId).toString('base64url')
}

function digestOf(requestId: string): Buffer {
  return createHash('sha256')
    .update(requestId)
    .digest()
    .subarray(0, HOLDER_WORDS * WORD_BYTES)
}
