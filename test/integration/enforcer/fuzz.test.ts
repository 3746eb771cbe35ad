import { afterAll, beforeAll, expect, it } from 'vitest'
import { Secret } from '../../../shared/runtime/env.ts'
import { ApiFuzzer } from '../../support/fuzz-api.ts'
import { fractions, runFuzz, tallyLine } from '../../support/fuzz-run.ts'
import { aPolicy, startRegion, type TestEnforcer, type TestRegion } from './region.ts'

/** `npm run fuzz -- --requests N --seed S` sets both. */
const REQUESTS = Number(process.env['FUZZ_REQUESTS'] ?? 2_000)
const SEED = Number(process.env['FUZZ_SEED'] ?? 7)
const DEBUG_TOKEN = 'debug-token-of-the-fuzz-test'

let region: TestRegion
let enforcer: TestEnforcer
beforeAll(async () => {
  region = await startRegion([
    aPolicy({ match: [{ key: 'tenant' }], limits: [{ capacity: 1_000_000 }] }),
    aPolicy({ match: [{ key: 'x1' }], limits: [{ algorithm: 'fixed_window', capacity: 3 }] }),
    aPolicy({
      match: [{ key: 'api' }],
      limits: [{ algorithm: 'concurrency', capacity: 100, windowMs: 60_000 }],
    }),
  ])
  enforcer = await region.startEnforcer({ debugToken: new Secret(DEBUG_TOKEN), keepsDenials: true })
})
afterAll(async () => await region.stop())

it(
  `an enforcer answers ${REQUESTS} random requests without a failure, a hang or a secret in the log (seed ${SEED})`,
  async () => {
    const document = (await enforcer.app.inject({ url: '/openapi.json' })).json()
    const fuzzer = new ApiFuzzer(document, fractions(SEED), () => true)
    expect(fuzzer.size).toBeGreaterThan(10)
    const tally = await runFuzz({
      app: enforcer.app,
      fuzzer,
      requests: REQUESTS,
      headers: { authorization: `Bearer ${DEBUG_TOKEN}` },
    })
    if (process.env['FUZZ_REQUESTS'] !== undefined) process.stdout.write(tallyLine(tally, SEED))
    expect(tally.failures.join('\n')).toBe('')
    expect(tally.routes.size).toBe(fuzzer.size)
    expect(tally.statuses.get(200)).toBeGreaterThan(REQUESTS / 10)
    expect(JSON.stringify(enforcer.lines)).not.toContain(DEBUG_TOKEN)
  },
  Math.max(120_000, REQUESTS * 60),
)
