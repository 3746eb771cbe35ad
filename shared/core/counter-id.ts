/**
 * Names of counters: `{tag}limitId.usageEpoch:name`.
 *
 * A name is the same in every region and is never shared by two descriptors, limits or usage epochs. Its tag
 * is the Redis hash tag of its slot group; all limits that one tenant meets are in one group as a rule,
 * because the group follows the domain and the descriptor's first entry. A part of a key that is counted in several
 * has its number behind the name, `name#part`, and a slot group of its own.
 */
import { assert } from './assert.ts'
import type { CounterId, DescriptorEntry } from './descriptor.ts'

/**
 * The hash tags of the slot groups.
 *
 * Their CRC16 slots are 512, 1536, 2560, … 15872: evenly spaced, so that any split of a cluster's slots in
 * equal ranges gives each shard equally many groups. Never changed: they are part of each counter's identity.
 */
export const SLOT_GROUP_TAGS = [
  '04s',
  '003',
  'pt6',
  '4x6',
  '0ay',
  '0e9',
  '4mt',
  '4i4',
  '265',
  '22u',
  'c0h',
  '6zp',
  'gio',
  'od7',
  '6o2',
  '6kr',
] as const

/** Few groups batch better, many spread better over shards: measured best at about 16 a shard. */
export const SLOT_GROUPS = SLOT_GROUP_TAGS.length

/** Longer encoded descriptors are replaced by their hash, so that a counter's memory stays bounded. */
export const COUNTER_NAME_LENGTH_MAX = 128

/** Stands in no other place of a name but its first, before a hash. */
const PART_MARK = '#'

/** The separators, the mark of a hashed name and of a part, controls, and what UTF-8 cannot carry. */
const ESCAPED = /[%=,#\p{Cc}\p{Cs}]/gu

const FNV_OFFSET = 0x811c9dc5
const FNV_PRIME = 0x01000193

const TAGS: readonly string[] = SLOT_GROUP_TAGS

export interface CounterSubject {
  readonly domain: string
  readonly entries: readonly DescriptorEntry[]
}

/** The slot group in which every limit of this domain and first entry is decided; the same in each region. */
export function slotGroup(subject: CounterSubject): number {
  const first = subject.entries[0]
  const text = `${escapeText(subject.domain)}=${encodeEntries(first === undefined ? [] : [first])}`
  let hash = FNV_OFFSET
  for (let index = 0; index < text.length; index++) {
    hash = Math.imul(hash ^ text.charCodeAt(index), FNV_PRIME)
  }
  // FNV's low bits are its weakest; fold the high half in before the remainder is taken.
  return ((hash ^ (hash >>> 16)) >>> 0) % SLOT_GROUPS
}

/** The part of a counter's name that the descriptor decides. `sha256` gives base64url and serves long ones. */
export function counterName(
  entries: readonly DescriptorEntry[],
  sha256: (text: string) => string,
): string {
  const name = encodeEntries(entries)
  return name.length <= COUNTER_NAME_LENGTH_MAX ? name : `#${sha256(name)}`
}

/** Joins the parts of a counter's identity. */
export function counterId(parts: {
  readonly group: number
  readonly limitId: number
  readonly usageEpoch: number
  readonly name: string
}): CounterId {
  const tag = SLOT_GROUP_TAGS[parts.group]
  assert(tag !== undefined, 'the slot group exists')
  return `{${tag}}${parts.limitId}.${parts.usageEpoch}:${parts.name}`
}

export interface CounterIdParts {
  readonly group: number
  readonly limitId: number
  readonly usageEpoch: number
  readonly name: string
}

const TAG_LENGTH = 3
const DIGITS_MAX = 16
const [OPEN, CLOSE, DOT, COLON, ZERO, NINE] = ['{', '}', '.', ':', '0', '9'].map((char) =>
  char.charCodeAt(0),
) as [number, number, number, number, number, number]
const GROUP_OF_TAG: ReadonlyMap<string, number> = new Map(TAGS.map((tag, group) => [tag, group]))

/**
 * The parts of a counter's identity; null when `text` is none (a peer's record may carry anything).
 *
 * By hand, since the ledger asks it of each of ten thousand keys: a third of the time of a regular expression.
 */
export function parseCounterId(text: string): CounterIdParts | null {
  const close = TAG_LENGTH + 1
  if (text.charCodeAt(0) !== OPEN || text.charCodeAt(close) !== CLOSE) return null
  const group = GROUP_OF_TAG.get(text.slice(1, close))
  const dot = digitsEnd(text, close + 1)
  const colon = digitsEnd(text, dot + 1)
  if (group === undefined || text.charCodeAt(dot) !== DOT || text.charCodeAt(colon) !== COLON) {
    return null
  }
  if (dot === close + 1 || colon === dot + 1) return null
  return {
    group,
    limitId: Number(text.slice(close + 1, dot)),
    usageEpoch: Number(text.slice(dot + 1, colon)),
    name: text.slice(colon + 1),
  }
}

/** Where the digits from `at` on end; at most DIGITS_MAX are looked at. */
function digitsEnd(text: string, at: number): number {
  let end = at
  while (end - at < DIGITS_MAX && isDigit(text.charCodeAt(end))) end++
  return end
}

function isDigit(code: number): boolean {
  return code >= ZERO && code <= NINE
}

/** The name of the counter of one part of a key (`counter-parts.ts`); that of the first part is the key's own. */
export function partName(name: string, part: number): string {
  return part === 0 ? name : `${name}${PART_MARK}${part}`
}

/** The name of the key that a counter is a part of; its own where it is a whole one. */
export function wholeName(name: string): string {
  const mark = name.lastIndexOf(PART_MARK)
  return mark > 0 ? name.slice(0, mark) : name
}

/** The value of an entry in a counter's name; null where the name is a hash or has no such entry. */
export function valueInName(name: string, entry: number): string | null {
  if (name.startsWith('#')) return null
  const encoded = wholeName(name).split(',')[entry]?.split('=')[1]
  if (encoded === undefined) return null
  return encoded.replace(/%([0-9a-f]{4})/g, (_escape, code: string) =>
    String.fromCharCode(Number.parseInt(code, 16)),
  )
}

function encodeEntries(entries: readonly DescriptorEntry[]): string {
  const [first] = entries
  if (first !== undefined && entries.length === 1) return encodeEntry(first)
  return entries.map(encodeEntry).join(',')
}

function encodeEntry(entry: DescriptorEntry): string {
  return `${escapeText(entry.key)}=${escapeText(entry.value)}`
}

function escapeText(text: string): string {
  return isPlain(text) ? text : text.replace(ESCAPED, escapeChar)
}

function escapeChar(char: string): string {
  return `%${char.charCodeAt(0).toString(16).padStart(4, '0')}`
}

/** Whether nothing of `text` needs the expression, which costs several times this look at each character. */
function isPlain(text: string): boolean {
  for (let index = 0; index < text.length; index++) {
    const code = text.charCodeAt(index)
    const isSafe = code > 0x3d || (code > 0x2c && code < 0x3d)
    if (!isSafe || code > 0x7e) return false
  }
  return true
}
