import { parseCounterId } from '../core/counter-id.ts'
import type { RegionLimit } from '../core/policy.ts'
import type { StockAdd } from '../core/ports.ts'
import { counterKey, groupKeys } from './keys.ts'
import { limitDoubles, packDoubles } from './layout.ts'
import type { RegionLink } from './region-link.ts'

/** Most counters of one script call, so that it stalls the checks for less than a millisecond. */
const ADDS_MAX = 64

const MICROS = 1_000

/** What `lua/_stock.lua` knows as: there is nothing more to be had. */
const EXHAUSTED = -1

/** Adds allotments to the counters of long windows; those of limits that are no stock by now are left out. */
export async function addAllStock(
  link: RegionLink,
  adds: readonly StockAdd[],
  limits: ReadonlyMap<number, RegionLimit>,
): Promise<void> {
  const groups = new Map<
    number,
    Map<string, { readonly add: StockAdd; readonly limit: RegionLimit }>
  >()
  for (const add of adds) {
    const parts = parseCounterId(add.id)
    const limit = limits.get(parts?.limitId ?? -1)
    if (parts === null || limit?.stock === undefined || limit.usageEpoch !== parts.usageEpoch)
      continue
    const group = groups.get(parts.group) ?? new Map()
    groups.set(parts.group, group.set(add.id, { add, limit }))
  }
  const calls = [...groups].flatMap(([group, entries]) => {
    const all = [...entries.values()]
    return Array.from({ length: Math.ceil(all.length / ADDS_MAX) }, (_, call) => ({
      group,
      part: all.slice(call * ADDS_MAX, (call + 1) * ADDS_MAX),
    }))
  })
  await Promise.all(
    calls.map(({ group, part }) => {
      const known = [...new Set(part.map(({ limit }) => limit))]
      const doubles = part.flatMap(({ add, limit }) => [
        known.indexOf(limit) + 1,
        add.startMs * MICROS,
        add.from,
        add.to,
        add.low ?? EXHAUSTED,
      ])
      const keys = [groupKeys(group).meta, ...part.map(({ add }) => counterKey(add.id))]
      const args = [
        packDoubles(known.flatMap((limit) => limitDoubles(limit, Date.now()))),
        packDoubles(doubles),
      ]
      return link.runFenced('add-stock', keys, args)
    }),
  )
}

/** Open windows of stock limits in a region's policies, by limit id and usage epoch. */
export function stockOf(policies: readonly { readonly limits: readonly RegionLimit[] }[]) {
  return new Map(
    policies
      .flatMap(({ limits }) => limits)
      .flatMap(({ id, usageEpoch, stock = [] }) =>
        stock.length === 0 ? [] : [[`${id}.${usageEpoch}`, stock] as const],
      ),
  )
}
