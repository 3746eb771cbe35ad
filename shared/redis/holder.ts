import { createHash } from 'node:crypto'

/** 128 bits: nobody finds two requests of one id. */
const HOLDER_WORDS = 4
const WORD_BYTES = 4

/** A holder's id as scripts take it, HOLDER_FORMAT: of one length, however long the request's id. */
export function holderWords(requestId: string): readonly number[] {
  const digest = createHash('sha256').update(requestId).digest()
  return Array.from({ length: HOLDER_WORDS }, (_, word) => digest.readUInt32LE(word * WORD_BYTES))
}
