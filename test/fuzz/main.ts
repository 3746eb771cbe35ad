/**
 * `npm run fuzz -- --requests 100000 --seed 1`: random requests to every route of the admin API, on a real Postgres,
 * and to every route of an enforcer, on a real Redis; as many to each. Prints how they were answered.
 */
import { spawn } from 'node:child_process'
import { parseArgs } from 'node:util'

const { values } = parseArgs({
  options: {
    requests: { type: 'string', default: '100000' },
    seed: { type: 'string', default: String(Date.now() % 1_000_000) },
  },
})
const tests = ['admin', 'enforcer'].map((service) => `test/integration/${service}/fuzz.test.ts`)
const vitest = ['run', '--project', 'integration', '--maxWorkers=1', ...tests]
const child = spawn('npx', ['vitest', ...vitest], {
  stdio: 'inherit',
  env: { ...process.env, FUZZ_REQUESTS: values.requests, FUZZ_SEED: values.seed },
})
child.on('exit', (code) => {
  process.exitCode = code ?? 1
})
