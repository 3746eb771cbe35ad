/** The packed formats of `lua/_prelude.lua`, seen from TypeScript. Little-endian; all numbers are doubles. */
import { windowEdges } from '../core/algorithms/edges.ts'
import { assert } from '../core/assert.ts'
import type { Algorithm, RegionLimit, StockWindow } from '../core/policy.ts'
import { usageWindowMs } from '../core/usage-window.ts'

const MICROS = 1_000

/** Written in meta; scripts refuse a meta of another layout. */
export const META_LAYOUT = 3
const META_BYTES = 43

/** How limits and stored states name their algorithm. A code is never used again for another one. */
export const ALGORITHM_CODES: Readonly<Record<Algorithm, number>> = {
  token_bucket: 0,
  fixed_window: 1,
  leaky_bucket: 2,
  sliding_window: 3,
  sliding_log: 4,
  sliding_counter: 5,
  concurrency: 6,
}

/** Long windows are another thing to a script than the fixed windows of shares. */
export const STOCK_CODE = 16
export const ESTIMATE_CODE = 17

export const LIMIT_DOUBLES = 22

/** Meta of a slot group. */
export interface Meta {
  readonly fence: number
  /** Number of the boot; a counter's own share holds only in the boot in which it was written. */
  readonly boot: number
  readonly incarnation: number
  readonly startUs: number
  readonly policyVersion: number
  readonly recovering: boolean
  readonly serving: boolean
}

/** Null where there is none, or one of another layout. */
export function decodeMeta(bytes: Buffer | null): Meta | null {
  if (bytes === null || bytes.length !== META_BYTES || bytes[0] !== META_LAYOUT) return null
  return {
    fence: bytes.readDoubleLE(1),
    boot: bytes.readDoubleLE(9),
    incarnation: bytes.readDoubleLE(17),
    startUs: bytes.readDoubleLE(25),
    policyVersion: bytes.readDoubleLE(33),
    recovering: bytes[41] === 1,
    serving: bytes[42] === 1,
  }
}

/**
 * LIMIT_FORMAT: the numbers that a script needs of a limit.
 *
 * `atMs`, about the present wall time, tells only which windows of a calendar to give: the one of then, two before it
 * and the one after it. A script that finds the present in neither the first before it nor any later one refuses.
 */
export function limitDoubles(limit: RegionLimit, atMs: number): readonly number[] {
  const { previous, stock } = limit
  if (stock !== undefined) return stockDoubles(limit, stock)
  return [
    limit.estimate === true ? ESTIMATE_CODE : ALGORITHM_CODES[limit.algorithm],
    limit.id,
    limit.usageEpoch,
    limit.version,
    limit.capacity,
    limit.windowMs * MICROS,
    limit.burst,
    limit.home,
    limit.changedAtUs,
    limit.idle.tokens,
    limit.idle.atUs,
    usageWindowMs(limit.windowMs) * MICROS,
    // No counter has a negative version.
    previous?.version ?? -1,
    previous?.capacity ?? 0,
    (previous?.windowMs ?? 0) * MICROS,
    previous?.burst ?? 0,
    previous?.home ?? 0,
    ...edgesOf(limit, atMs),
  ]
}

/** The same format, as `lua/_stock.lua` reads it. */
function stockDoubles(limit: RegionLimit, windows: readonly StockWindow[]): readonly number[] {
  const none = { startMs: 0, endMs: 0, floor: 0 }
  const [first = none, next = none] = windows
  return [
    STOCK_CODE,
    limit.id,
    limit.usageEpoch,
    limit.version,
    limit.capacity,
    limit.windowMs * MICROS,
    limit.burst,
    0,
    first.startMs * MICROS,
    first.floor,
    first.endMs * MICROS,
    usageWindowMs(limit.windowMs) * MICROS,
    -1,
    next.floor,
    next.startMs * MICROS,
    next.endMs * MICROS,
    0,
    ...NO_EDGES,
  ]
}

const NO_EDGES: readonly number[] = [0, 0, 0, 0, 0]

interface KnownEdges {
  readonly startUs: number
  readonly endUs: number
  readonly edges: readonly number[]
}

/** A calendar takes a tenth of a millisecond, so its edges are kept until the window ends. */
const knownEdges = new WeakMap<RegionLimit, KnownEdges>()

function edgesOf(limit: RegionLimit, atMs: number): readonly number[] {
  if (limit.calendar === null) return NO_EDGES
  const atUs = Math.floor(atMs) * MICROS
  const known = knownEdges.get(limit)
  if (known !== undefined && known.startUs <= atUs && atUs < known.endUs) return known.edges
  const { startUs, endUs, previousUs } = windowEdges(limit, atUs)
  const before = windowEdges(limit, previousUs).previousUs
  const edges = [before, previousUs, startUs, endUs, windowEdges(limit, endUs).endUs]
  knownEdges.set(limit, { startUs, endUs, edges })
  return edges
}

/** Doubles as the bytes that struct.unpack('<d…') reads. */
export function packDoubles(values: readonly number[]): Buffer {
  const doubles = Float64Array.from(values)
  return Buffer.from(doubles.buffer)
}

/** The doubles of struct.pack('<d…'). A copy, because a reply's bytes need not be aligned. */
export function unpackDoubles(bytes: Buffer): Float64Array {
  assert(bytes.length % 8 === 0, 'a packed reply is whole doubles')
  const doubles = new Float64Array(bytes.length / 8)
  Buffer.from(doubles.buffer).set(bytes)
  return doubles
}
