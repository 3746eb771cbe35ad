import { parseCounterId } from '../core/counter-id.ts'
import type { Count } from '../core/estimate/count-table.ts'
import type { RegionLimit } from '../core/policy.ts'
import { counterKey, groupKeys } from './keys.ts'
import { limitDoubles, packDoubles, unpackDoubles } from './layout.ts'
import type { RegionLink } from './region-link.ts'
import { bytesOf } from './scripts.ts'

/** Most counters of one script call, so that it stalls the checks for less than a millisecond. */
const EXCHANGES_MAX = 64

const MICROS = 1_000

/** Tells counters what others counted, and gives what this region did; limits that are no estimates are left out. */
export async function exchangeAllCounts(
  link: RegionLink,
  known: readonly Count[],
  limits: ReadonlyMap<number, RegionLimit>,
): Promise<readonly Count[]> {
  const groups = new Map<number, { readonly count: Count; readonly limit: RegionLimit }[]>()
  for (const count of known) {
    const parts = parseCounterId(count.id)
    const limit = limits.get(parts?.limitId ?? -1)
    if (parts === null || limit?.estimate === undefined) continue
    if (limit.usageEpoch !== parts.usageEpoch) continue
    const group = groups.get(parts.group) ?? []
    group.push({ count, limit })
    groups.set(parts.group, group)
  }
  const calls = [...groups].flatMap(([group, all]) =>
    Array.from({ length: Math.ceil(all.length / EXCHANGES_MAX) }, (_, call) => ({
      group,
      part: all.slice(call * EXCHANGES_MAX, (call + 1) * EXCHANGES_MAX),
    })),
  )
  const counts = await Promise.all(
    calls.map(async ({ group, part }) => {
      const used = [...new Set(part.map(({ limit }) => limit))]
      const doubles = part.flatMap(({ count, limit }) => [
        used.indexOf(limit) + 1,
        count.startMs * MICROS,
        count.used,
      ])
      const keys = [groupKeys(group).meta, ...part.map(({ count }) => counterKey(count.id))]
      const args = [
        packDoubles(used.flatMap((limit) => limitDoubles(limit, Date.now()))),
        packDoubles(doubles),
      ]
      const figures = unpackDoubles(bytesOf(await link.runFenced('exchange-counts', keys, args)))
      return part.map(({ count }, index) => ({
        id: count.id,
        startMs: (figures[2 * index] ?? 0) / MICROS,
        used: figures[2 * index + 1] ?? 0,
      }))
    }),
  )
  return counts.flat()
}
