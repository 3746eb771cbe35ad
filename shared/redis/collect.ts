import type { CounterId } from '../core/descriptor.ts'
import type { Sample } from '../core/ledger/types.ts'
import type { RegionLimit } from '../core/policy.ts'
import { usageWindowMs } from '../core/usage-window.ts'
import { counterKey, groupKeys } from './keys.ts'
import { unpackDoubles } from './layout.ts'
import type { RegionLink } from './region-link.ts'
import { bytesOf } from './scripts.ts'
import { type MonotonicClock, offsetAt } from './store-clock.ts'
import type { UsageTotals } from './usage-totals.ts'

/** Most counters and most totals of one script call: each stalls the checks for well under a millisecond. */
const COUNTERS_MAX = 256
const FIELDS_MAX = 512

/** Most counters taken out of one hot set at a time; the others wait for the next reading. */
const NOTICED_MAX = 64

/** As in `lua/_totals.lua`. */
const RING_WINDOWS = 64

/** Most windows read of one limit, after a pause; older ones are missing from the peers' views of usage only. */
const WINDOWS_READ_MAX = 16

const FIGURES_PER_COUNTER = 4

/** What `lua/collect.lua` says in place of 1 of a share that is not what a daemon writes. */
const CORRUPT = 2

/** The entry of one window of one limit in the usage totals. */
export interface WindowField {
  readonly field: string
}

/** As in `lua/_totals.lua`: any of the totals may have changed. */
const ANY_CHANGED = '*'

export interface GroupReading {
  /** Redis TIME minus the clock, ms; never more than the true difference. */
  readonly offsetMs: number
  readonly samples: Sample[]
  readonly missing: CounterId[]
  /** Those of `missing` whose share is there and is not what a daemon writes. */
  readonly corrupt: CounterId[]
  readonly noticed: CounterId[]
  /** More totals changed than were named: those of all limits must be read. */
  readonly isAnyChanged: boolean
}

/** The entries of the last windows of all limits, up to an instant in us of Redis TIME. */
export function windowsBefore(limits: Iterable<RegionLimit>, toUs: number): readonly WindowField[] {
  const fields: WindowField[] = []
  for (const { id, usageEpoch, windowMs } of limits) {
    const last = Math.floor(toUs / (usageWindowMs(windowMs) * 1_000))
    for (let window = Math.max(0, last - WINDOWS_READ_MAX + 1); window <= last; window++) {
      fields.push({ field: `${id}.${usageEpoch}:${window % RING_WINDOWS}` })
    }
  }
  return fields
}

/** Reads one slot group in bounded calls and adds its usage to `usage`. */
export async function collectGroup(
  link: RegionLink,
  request: {
    readonly group: number
    readonly tracked: readonly CounterId[]
    readonly windows: readonly WindowField[]
    readonly usage: UsageTotals
    readonly clock: MonotonicClock
  },
): Promise<GroupReading> {
  const { group, tracked, windows, usage, clock } = request
  const calls = Math.max(
    1,
    Math.ceil(tracked.length / COUNTERS_MAX),
    Math.ceil(windows.length / FIELDS_MAX),
  )
  const { meta, hot, usage: usageKey } = groupKeys(group)
  const reading = {
    offsetMs: Number.NEGATIVE_INFINITY,
    samples: [],
    missing: [],
    corrupt: [],
    noticed: [] as CounterId[],
    isAnyChanged: false,
  }
  for (let call = 0; call < calls; call++) {
    const ids = tracked.slice(call * COUNTERS_MAX, (call + 1) * COUNTERS_MAX)
    const part = windows.slice(call * FIELDS_MAX, (call + 1) * FIELDS_MAX)
    const keys = [meta, hot, usageKey, ...ids.map(counterKey)]
    const args = [call === 0 ? NOTICED_MAX : 0, ...part.map(({ field }) => field)]
    const reply = parseReply(await link.runFenced('collect', keys, args))
    reading.offsetMs = Math.max(reading.offsetMs, offsetAt(reply.figures[0] ?? 0, clock))
    reading.noticed.push(...reply.noticed)
    addSamples(reading, ids, reply.figures)
    for (const [index, text] of reply.totals.entries()) usage.put(group, part[index]?.field, text)
    for (const [index, text] of reply.changedTotals.entries()) {
      usage.put(group, reply.changed[index], text)
    }
    reading.isAnyChanged ||= reply.changed.includes(ANY_CHANGED)
  }
  return reading
}

interface CollectReply {
  readonly figures: Float64Array
  readonly noticed: readonly CounterId[]
  readonly totals: readonly (Buffer | null)[]
  readonly changed: readonly string[]
  readonly changedTotals: readonly (Buffer | null)[]
}

function parseReply(reply: unknown): CollectReply {
  const [figures, noticed, totals, changed, changedTotals] = reply as [
    Buffer,
    Buffer[],
    (Buffer | null)[],
    Buffer[],
    (Buffer | null)[],
  ]
  return {
    figures: unpackDoubles(bytesOf(figures)),
    noticed: noticed.map((id) => id.toString()),
    totals,
    changed: changed.map((field) => field.toString()),
    changedTotals,
  }
}

function addSamples(
  reading: Pick<GroupReading, 'samples' | 'missing' | 'corrupt'>,
  ids: readonly CounterId[],
  figures: Float64Array,
): void {
  for (const [index, id] of ids.entries()) {
    const at = 1 + index * FIGURES_PER_COUNTER
    if (figures[at] !== 1) {
      reading.missing.push(id)
      if (figures[at] === CORRUPT) reading.corrupt.push(id)
      continue
    }
    const [admitted = 0, denied = 0, returned = 0] = figures.slice(at + 1, at + FIGURES_PER_COUNTER)
    reading.samples.push({ id, admitted, denied, returned })
  }
}
