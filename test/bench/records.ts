/**
 * What records cost a region: bytes out, and the ledger's time, by regions, hot keys and load.
 *
 * Run with `npm run bench:records`: first the formats, then one JSON line for each plane. Bytes do not depend on the
 * machine; times do. `coreRatio` is the part of one core that the ledger and the coding take in one region, without
 * Redis and NATS (`npm run bench:sync` has those).
 */
import { Costs, LedgerPlane, type Load } from './ledger-plane.ts'
import { reportFormats } from './record-formats.ts'

/** Until loans are where they are needed; then what is measured. */
const SETTLE_MS = 10_000
const MEASURED_MS = 15_000

/** This process does the work of all daemons, so a plane of many is run for less: between its whole records. */
const MANY_REGIONS = 20
const MANY_SETTLE_MS = 3_000
const MANY_MEASURED_MS = 3_000

const SIZES: readonly (readonly [regions: number, hotKeys: number, load: Load])[] = [
  [2, 1_000, 'skew'],
  [5, 100, 'skew'],
  [5, 1_000, 'skew'],
  [5, 1_000, 'overload'],
  [5, 10_000, 'skew'],
  [10, 1_000, 'skew'],
  [20, 100, 'skew'],
  [20, 1_000, 'skew'],
  [50, 100, 'skew'],
  [50, 1_000, 'skew'],
]

function reportPlane([regions, hotKeys, load]: (typeof SIZES)[number]): void {
  const plane = new LedgerPlane({ regions, hotKeys, load })
  const isMany = regions > MANY_REGIONS
  const measuredMs = isMany ? MANY_MEASURED_MS : MEASURED_MS
  plane.run(isMany ? MANY_SETTLE_MS : SETTLE_MS)
  plane.costs = new Costs()
  plane.run(measuredMs)
  const { bytes, messages, wholes, ms, runs } = plane.costs
  const seconds = (measuredMs / 1_000) * regions
  const all = Object.values(ms).reduce((sum, one) => sum + one, 0)
  const stepMs = Object.fromEntries(
    Object.entries(ms).map(([what, sum]) => [
      what,
      round(sum / Math.max(1, Reflect.get(runs, what))),
    ]),
  )
  const line = {
    regions,
    hotKeys,
    load,
    tracked: plane.tracked / regions,
    bytesPerSecond: Math.round(bytes / seconds),
    recordsPerSecond: round(messages / seconds),
    wholesPerMinute: round((wholes * 60) / seconds),
    coreRatio: round(all / 1_000 / seconds),
    stepMs,
  }
  process.stdout.write(`${JSON.stringify(line)}\n`)
}

function round(value: number): number {
  return Math.round(value * 1_000) / 1_000
}

const only = process.argv[2]
if (only === undefined) reportFormats()
for (const size of SIZES) if (only === undefined || size.join() === only) reportPlane(size)
