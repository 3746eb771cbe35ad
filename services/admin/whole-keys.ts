import { counterId, parseCounterId, wholeName } from '../../shared/core/counter-id.ts'
import type { CounterId } from '../../shared/core/descriptor.ts'
import type { RecordRow, RegionRecord } from '../../shared/core/ledger/types.ts'
import type { Limit, RegionId } from '../../shared/core/policy.ts'

/**
 * A record in which each key that is counted in several parts has one row: the tokens of all parts, and of units, which
 * each part has a whole pool of, their mean. For views; a part without a row has its region's base. `sharded`: the limits
 * with such keys.
 */
export function withWholeKeys(
  record: RegionRecord,
  sharded: ReadonlyMap<number, Limit>,
): RegionRecord {
  if (sharded.size === 0) return record
  const whole = new Map<string, Parts & { readonly rows: RecordRow[] }>()
  const rows: RecordRow[] = []
  for (const row of record.rows) {
    const id = parseCounterId(row.id)
    const limit = sharded.get(id?.limitId ?? -1)
    if (id === null || limit === undefined) {
      rows.push(row)
      continue
    }
    const name = wholeName(id.name)
    const key = `${id.limitId}.${id.usageEpoch}:${name}`
    const found = whole.get(key) ?? { id: counterId({ ...id, name }), limit, rows: [] }
    found.rows.push(row)
    whole.set(key, found)
  }
  if (whole.size === 0) return record
  const joined = [...whole.values()].map((parts) => joinedRow(record.from, parts))
  return { ...record, rows: [...rows, ...joined] }
}

interface Parts {
  /** Of the whole key, in the slot group of some part of it. */
  readonly id: CounterId
  readonly limit: Limit
  readonly rows: readonly RecordRow[]
}

function joinedRow(region: RegionId, { id, limit, rows }: Parts): RecordRow {
  const cold = Math.max(0, limit.shards - rows.length) * (limit.base[region] ?? 0)
  const mean = (units: number): number => Math.floor(units / limit.shards)
  const sum = (figure: (row: RecordRow) => number): number =>
    rows.reduce((all, row) => Math.min(Number.MAX_SAFE_INTEGER, all + figure(row)), 0)
  const lent: Record<RegionId, readonly [number, number, number]> = {}
  for (const peer of new Set(rows.flatMap((row) => Object.keys(row.lent)))) {
    const units = sum((row) => row.lent[peer]?.[1] ?? 0)
    const returned = sum((row) => row.lent[peer]?.[2] ?? 0)
    lent[peer] = [0, mean(units), mean(returned)]
  }
  const gaveBack: Record<RegionId, readonly [number, number]> = {}
  for (const peer of new Set(rows.flatMap((row) => Object.keys(row.gaveBack)))) {
    gaveBack[peer] = [0, mean(sum((row) => row.gaveBack[peer]?.[1] ?? 0))]
  }
  return {
    id,
    share: mean(cold + sum((row) => row.share)),
    demand: sum((row) => row.demand),
    hungry: rows.some((row) => row.hungry),
    admitted: sum((row) => row.admitted),
    denied: sum((row) => row.denied),
    returned: sum((row) => row.returned),
    quarantined: mean(sum((row) => row.quarantined)),
    lent,
    gaveBack,
  }
}
