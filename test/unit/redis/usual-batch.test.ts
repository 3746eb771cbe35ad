import { describe, expect, it } from 'vitest'
import { counterId } from '../../../shared/core/counter-id.ts'
import type { CheckTarget } from '../../../shared/core/ports.ts'
import { hashOf, KeyPlaces } from '../../../shared/redis/key-places.ts'
import { UsualBatch, usualBuffers } from '../../../shared/redis/usual-batch.ts'
import { UsualNotes } from '../../../shared/redis/usual-notes.ts'
import { aLimit } from '../../support/redis-region.ts'

const GROUP = 3
const LIMIT = {
  ...aLimit({ capacity: 10, windowMs: 1_000 }),
  version: 1,
  previous: null,
  changedAtUs: 0,
  idle: { tokens: 10, atUs: 0 },
}

describe('a batch of usual checks', () => {
  it('names each counter once, however many targets lead to it', () => {
    const batch = aBatch()
    for (const name of ['a', 'b', 'a', 'c', 'a']) ask(batch, name)

    const { keys, runs } = sent(batch)

    expect(keys.slice(3)).toEqual(['a', 'b', 'c'].map((name) => `c:${target(name).counter}`))
    // Limit, cost, first counter, number of checks.
    expect(runs).toEqual([1, 1, 1, 2, 1, 1, 1, 1, 1, 1, 3, 1, 1, 1, 1, 1])
  })

  it('sends names of any letters as they are, beside plain ones', () => {
    const batch = aBatch()
    const names = ['plain', 'größe', '東京', 'ÿ', '🙂']
    for (const name of names) ask(batch, name)

    expect(sent(batch).keys.slice(3)).toEqual(names.map((name) => `c:${target(name).counter}`))
  })
})

describe('places of keys', () => {
  it('keep keys apart whose hashes are the same', () => {
    const places = new KeyPlaces(4)
    const key = (keyText: string) => ({ keyText, hash: 5 })

    expect(['a', 'b', 'c', 'b', 'a', 'd'].map((text) => places.placeOf(key(text)))).toEqual([
      1, 2, 3, 2, 1, 4,
    ])
  })

  it('hold as many keys as they are made for, and none after they were cleared', () => {
    const places = new KeyPlaces(256)
    const keys = Array.from({ length: 256 }, (_, index) => {
      const keyText = `key-${index}`
      return { keyText, hash: hashOf(keyText) }
    })
    for (let round = 0; round < 2; round++) {
      expect(keys.map((key) => places.placeOf(key))).toEqual(keys.map((_, index) => index + 1))
      expect(keys.map((key) => places.placeOf({ ...key }))).toEqual(keys.map((_, i) => i + 1))
      places.clear()
      expect(places.size).toBe(0)
    }
  })
})

function aBatch(): UsualBatch {
  return new UsualBatch(1, GROUP, usualBuffers())
}

/** A target of its own for each call, as routes that are not kept have. */
function target(name: string): CheckTarget {
  return { limit: LIMIT, counter: counterId({ group: GROUP, limitId: 1, usageEpoch: 0, name }) }
}

function ask(batch: UsualBatch, name: string): void {
  const check = { group: GROUP, target: target(name), cost: 1, version: 1 }
  batch.add({ ...check, decided() {}, failed() {} }, UsualNotes.of(check.target))
}

/** What leaves for Redis, read by the protocol. */
function sent(batch: UsualBatch): { readonly keys: readonly string[]; readonly runs: number[] } {
  const bytes = batch.command('0'.repeat(40)).toWritable()
  const lineAt = (from: number): string =>
    bytes.toString('latin1', from, bytes.indexOf('\r\n', from))
  const words: Buffer[] = []
  let position = lineAt(0).length + 2
  for (let left = Number(lineAt(0).slice(1)); left > 0; left--) {
    const line = lineAt(position)
    const start = position + line.length + 2
    words.push(bytes.subarray(start, start + Number(line.slice(1))))
    position = start + Number(line.slice(1)) + 2
  }
  expect(position).toBe(bytes.length)
  const keyCount = Number(words[2])
  const runs = Buffer.from(words[3 + keyCount + 3] ?? [])
  return {
    keys: words.slice(3, 3 + keyCount).map(String),
    runs: Array.from({ length: runs.length / 8 }, (_, index) => runs.readDoubleLE(8 * index)),
  }
}
