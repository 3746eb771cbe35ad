import { afterAll, beforeAll, expect, it } from 'vitest'
import { aPolicy, startRegion, type TestEnforcer, type TestRegion } from './region.ts'

/** Windows whose lengths do not fit a timer: such a one would fire at once, and again and again. */

const DAY_MS = 86_400_000
const LIMITS = [
  { name: 'days-25', algorithm: 'sliding_log', windowMs: 25 * DAY_MS },
  { name: 'days-30', algorithm: 'token_bucket', windowMs: 30 * DAY_MS },
  { name: 'days-31', algorithm: 'leaky_bucket', windowMs: 31 * DAY_MS },
  { name: 'days-365', algorithm: 'sliding_counter', windowMs: 365 * DAY_MS },
  { name: 'days-366', algorithm: 'concurrency', windowMs: 366 * DAY_MS },
] as const

const warnings: Error[] = []
const note = (warning: Error): void => void warnings.push(warning)

let region: TestRegion
let enforcer: TestEnforcer

beforeAll(async () => {
  process.on('warning', note)
  region = await startRegion(
    LIMITS.map(({ name, algorithm, windowMs }) =>
      aPolicy({
        name,
        match: [{ key: name }],
        onStoreFailure: 'local',
        limits: [{ algorithm, capacity: 5, windowMs }],
        // An override that ends long after any timer could.
        overrides: [
          { value: 'other', rule: { kind: 'deny' }, expiresAtMs: Date.now() + 60 * DAY_MS },
        ],
      }),
    ),
  )
  enforcer = await region.startEnforcer({ leases: true, keepsDenials: true, deadlineMs: 200 })
})
afterAll(async () => {
  process.off('warning', note)
  await region.stop()
})

it('long windows deny the sixth of five for all of their length, and wake nobody (B116)', async () => {
  const ask = async (name: string) => (await enforcer.check([{ [name]: 'acme' }])).answer
  for (const { name, windowMs } of LIMITS) {
    const allowed: boolean[] = []
    for (let turn = 0; turn < 8; turn++) {
      const answer = await ask(name)
      allowed.push(answer.allowed)
      expect(answer.decisions[0]?.resetMs ?? 0, name).toBeLessThanOrEqual(2 * windowMs)
    }
    expect(allowed, name).toEqual([true, true, true, true, true, false, false, false])
  }
  // What fires at once would fire again and again, and leave nothing of the processor.
  const before = process.cpuUsage()
  const beganMs = performance.now()
  await expect.poll(() => performance.now() - beganMs, { interval: 250 }).toBeGreaterThan(250)
  const { user, system } = process.cpuUsage(before)
  expect((user + system) / 1_000).toBeLessThan((performance.now() - beganMs) / 2)
  for (const { name } of LIMITS) expect((await ask(name)).allowed, name).toBe(false)
  expect(warnings.map(({ name }) => name)).not.toContain('TimeoutOverflowWarning')
})
