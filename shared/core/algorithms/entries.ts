/**
 * Admissions of a trailing window, each with its instant: what the sliding log and the sliding window keep.
 *
 * An admission counts from its instant until one window later. An instant may be put off, never brought forward, so
 * that a true window holds at most what is counted. Admissions of one instant are one entry: what is counted are
 * tokens, so none is lost.
 */
import { assert } from '../assert.ts'
import { shareTokens } from '../units.ts'
import {
  type Algorithm,
  type Circumstances,
  isAstray,
  type Return,
  type Settled,
  type Share,
  unitsAt,
} from './algorithm.ts'

export interface Entry {
  readonly atUs: number
  readonly tokens: number
}

export interface EntriesState {
  readonly version: number
  /** In the order of their instants; never empty. */
  readonly entries: readonly Entry[]
}

export interface SettledEntries extends Settled {
  readonly circumstances: Circumstances
  readonly stored: boolean
  /** Those that count now. */
  readonly entries: readonly Entry[]
  readonly count: number
  /** Admissions before the region's levels start may count still, and are not known. */
  readonly isBlind: boolean
}

/** How entries are kept small. `windowUs` is the window's length. */
export interface EntryRule {
  /** The instant that an admission at `atUs` is counted at: the same or a later one. */
  stamp(atUs: number, windowUs: number): number
  /** Bounds the entries in number. */
  compact(entries: readonly Entry[], windowUs: number): readonly Entry[]
  /** Which entry holds what was admitted at `atUs`; -1 when none does. */
  find(entries: readonly Entry[], atUs: number, windowUs: number): number
}

/** A state outlives its last entry by this, for slips of the clock. */
const KEEP_MARGIN_MS = 1_000

/** An algorithm that counts the admissions of the window that ends now. */
export function slidingBy(rule: EntryRule): Algorithm<EntriesState, SettledEntries> {
  return {
    settle,
    resize,
    take: (settled, cost) => take(rule, settled, cost),
    giveBack: (settled, given) => giveBack(rule, settled, given),
    heal(settled) {
      const atUs = rule.stamp(settled.circumstances.nowUs, windowOf(settled))
      return { ...settled, entries: [{ atUs, tokens: settled.count }], astray: false }
    },
    resetMs: (settled) => clearMs(rule, settled),
    waitMs: (settled, cost) => waitMs(rule, settled, cost),
    store: ({ circumstances, entries }) => ({
      version: circumstances.limit.version,
      entries: entries.length > 0 ? entries : [nothingNow(rule, circumstances)],
    }),
    keepMs(settled) {
      const newest = settled.entries.at(-1) ?? nothingNow(rule, settled.circumstances)
      return msUntil(settled, newest.atUs + windowOf(settled)) + KEEP_MARGIN_MS
    },
  }
}

function settle(state: EntriesState | null, circumstances: Circumstances): SettledEntries {
  const { limit, boot, nowUs } = circumstances
  const windowUs = limit.windowMs * 1_000
  const entries = (state?.entries ?? []).filter(
    ({ atUs, tokens }) => tokens > 0 && nowUs - atUs < windowUs,
  )
  const settled = {
    circumstances,
    stored: state !== null,
    entries,
    count: entries.reduce((sum, { tokens }) => sum + tokens, 0),
    isBlind: nowUs < boot.startUs + windowUs,
    astray: isAstray(circumstances, entries.at(-1)?.atUs ?? 0),
  }
  return { ...settled, ...room(settled) }
}

function take(rule: EntryRule, settled: SettledEntries, cost: number): SettledEntries {
  assert(cost <= settled.remaining, 'a window never admits more than its share')
  const windowUs = windowOf(settled)
  const entry = { atUs: rule.stamp(settled.circumstances.nowUs, windowUs), tokens: cost }
  const entries = rule.compact(append(settled.entries, entry), windowUs)
  return {
    ...settled,
    entries,
    count: settled.count + cost,
    remaining: settled.remaining - cost,
  }
}

function giveBack(
  rule: EntryRule,
  settled: SettledEntries,
  { cost, atUs }: Return,
): SettledEntries | null {
  const { boot, nowUs } = settled.circumstances
  const windowUs = windowOf(settled)
  const entry = settled.entries[rule.find(settled.entries, atUs, windowUs)]
  const counts = atUs >= boot.startUs && nowUs - atUs < windowUs
  if (!settled.stored || !counts || entry === undefined) return null
  const credit = Math.min(cost, entry.tokens)
  const entries = settled.entries.map((one) =>
    one === entry ? { ...one, tokens: one.tokens - credit } : one,
  )
  const credited = { ...settled, entries, count: settled.count - credit }
  return { ...credited, ...room(credited) }
}

function resize(
  settled: SettledEntries,
  share: Share | null,
  shrinks: boolean,
): SettledEntries | null {
  const resized = { ...settled, circumstances: { ...settled.circumstances, share } }
  const { most, remaining } = room(resized)
  if (shrinks && (settled.isBlind || settled.count > most)) return null
  return { ...resized, most, remaining, stored: true }
}

/** Until nothing counts any more. */
function clearMs(rule: EntryRule, settled: SettledEntries): number {
  const { boot, nowUs } = settled.circumstances
  const newest = settled.entries.at(-1)
  if (newest === undefined && !settled.isBlind) return 0
  const windowUs = windowOf(settled)
  const lastUs = settled.astray ? rule.stamp(nowUs, windowUs) : (newest?.atUs ?? 0)
  return msUntil(settled, Math.max(lastUs, settled.isBlind ? boot.startUs : 0) + windowUs)
}

function waitMs(rule: EntryRule, settled: SettledEntries, cost: number): number | null {
  if (cost > settled.most) return null
  if (settled.astray) return clearMs(rule, settled)
  const windowUs = windowOf(settled)
  let freeUs = settled.isBlind ? settled.circumstances.boot.startUs + windowUs : 0
  let short = settled.count + cost - settled.most
  for (const { atUs, tokens } of settled.entries) {
    if (short <= 0) break
    freeUs = Math.max(freeUs, atUs + windowUs)
    short -= tokens
  }
  return msUntil(settled, freeUs)
}

/** What is stored of a counter that was given a share and admitted nothing. */
function nothingNow(rule: EntryRule, { limit, nowUs }: Circumstances): Entry {
  return { atUs: rule.stamp(nowUs, limit.windowMs * 1_000), tokens: 0 }
}

/** Joined per instant; while the clock is behind the newest entry, that one takes what is admitted. */
function append(entries: readonly Entry[], entry: Entry): readonly Entry[] {
  const newest = entries.at(-1)
  if (newest === undefined || newest.atUs < entry.atUs) return [...entries, entry]
  return [...entries.slice(0, -1), { ...newest, tokens: newest.tokens + entry.tokens }]
}

/** What the share of these circumstances leaves. */
function room(
  settled: Pick<SettledEntries, 'circumstances' | 'count' | 'isBlind'>,
): Pick<Settled, 'most' | 'remaining'> {
  const { limit, nowUs } = settled.circumstances
  const most = shareTokens(limit.capacity, unitsAt(settled.circumstances, limit, nowUs))
  return { most, remaining: settled.isBlind ? 0 : Math.max(0, most - settled.count) }
}

function windowOf({ circumstances }: SettledEntries): number {
  return circumstances.limit.windowMs * 1_000
}

function msUntil({ circumstances }: SettledEntries, atUs: number): number {
  return Math.max(0, Math.ceil((atUs - circumstances.nowUs) / 1_000))
}
