/**
 * Measures speed and memory beside others, each side in turn in one run.
 *
 * `npm run bench` prints a table; `-- --json` one line of JSON a measurement; names after it choose some of them. With
 * `--check` it ends with exit code 1 where a target is missed, which means something on a machine that does nothing else.
 * The ratio is the figure to watch: the absolute ones are the machine's.
 */
import { parseArgs } from 'node:util'
import { distinctKeys, distinctKeysSocket } from './distinct-keys.ts'
import { grpcCheck, grpcCheckP99 } from './grpc-check.ts'
import { heap } from './heap.ts'
import { hotKey, hotKeyRedisCalls } from './hot-key.ts'
import { httpCheck, httpCheckP99 } from './http-check.ts'
import { keyMemory } from './key-memory.ts'
import { type Measurement, measure, type Prepared, ROUNDS_MIN } from './measure.ts'
import { metricsCost } from './metrics-cost.ts'
import { policyMatch } from './policy-match.ts'
import { scrape } from './scrape.ts'
import { outcomeOf } from './targets.ts'
import { tracingCost, tracingCostAll } from './tracing-cost.ts'

const BENCHES: Readonly<Record<string, () => Promise<Prepared>>> = {
  'distinct-keys': distinctKeys,
  'distinct-keys-socket': distinctKeysSocket,
  'hot-key': hotKey,
  'hot-key-redis-calls': hotKeyRedisCalls,
  'http-check': httpCheck,
  'http-check-p99': httpCheckP99,
  'grpc-check': grpcCheck,
  'grpc-check-p99': grpcCheckP99,
  'metrics-cost': metricsCost,
  'tracing-cost': tracingCost,
  'tracing-cost-all': tracingCostAll,
  scrape,
  heap,
  'key-memory': keyMemory,
  'policy-match': policyMatch,
}

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    json: { type: 'boolean' },
    rounds: { type: 'string' },
    check: { type: 'boolean' },
  },
})

const unknown = positionals.filter((name) => !(name in BENCHES))
if (unknown.length > 0) {
  process.stderr.write(
    `no such measurement: ${unknown.join(', ')}; there are ${Object.keys(BENCHES).join(', ')}\n`,
  )
  process.exit(2)
}

const rounds = Number(values.rounds ?? ROUNDS_MIN)
for (const [name, prepare] of Object.entries(BENCHES)) {
  if (positionals.length > 0 && !positionals.includes(name)) continue
  const { contest, stop } = await prepare()
  try {
    report(await measure(contest, rounds))
  } finally {
    await stop()
  }
}

function report(measurement: Measurement): void {
  const outcome = outcomeOf(measurement)
  if (values.check === true && outcome?.isMet === false) process.exitCode = 1
  const rounded = {
    ...measurement,
    ours: round(measurement.ours),
    peer: round(measurement.peer),
    ratio: round(measurement.ratio),
  }
  const { name, ours, peer, peerName, ratio, unit } = rounded
  const target = outcome === null ? '' : ` (${outcome.text})`
  const line = `${name}: ${ours} ${unit}, ${peerName} ${peer}, ratio ${ratio}${target}`
  process.stdout.write(`${values.json === true ? JSON.stringify(rounded) : line}\n`)
}

/** Four significant digits; more would be noise. */
function round(value: number): number {
  return Number(value.toPrecision(4))
}
