import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest'
import { REROUTES_MAX } from '../../../services/enforcer/slot-group.ts'
import type { RegionPolicySpec } from '../../../shared/core/policy.ts'
import { aPolicy, startRegion, type TestEnforcer, type TestRegion, withLimit } from './region.ts'

const HOUR_MS = 3_600_000

/** A check that is under way meets no more of them. */
const CHANGES_BETWEEN = REROUTES_MAX / 2

let region: TestRegion
let enforcers: TestEnforcer[]
let enforcer: TestEnforcer
let tenants = 0
let tenant: string

beforeAll(async () => {
  region = await startRegion([])
  enforcers = await Promise.all([1, 2, 3, 4].map(() => region.startEnforcer()))
  const [one] = enforcers
  if (one === undefined) throw new Error('an enforcer')
  enforcer = one
})
beforeEach(() => {
  tenant = `tenant-${++tenants}`
})
afterAll(() => region.stop())

async function decision(cost = 1) {
  const { answer } = await enforcer.check(tenant, { cost })
  const [only] = answer.decisions
  if (only === undefined) throw new Error('no decision')
  return only
}

async function admittedOf(checks: number): Promise<number> {
  let admitted = 0
  for (let turn = 0; turn < checks; turn++) if ((await decision()).allowed) admitted++
  return admitted
}

/** Writes policies and waits until they are known: what no policy governs asks no store, so is not told of one. */
async function introduce(policy: RegionPolicySpec): Promise<void> {
  const version = await region.write([policy])
  await expect.poll(() => enforcer.policies.current()?.version, { interval: 10 }).toBe(version)
}

const bucket = (capacity: number, windowMs = HOUR_MS): RegionPolicySpec =>
  aPolicy({ limits: [{ algorithm: 'token_bucket', capacity, windowMs }] })
const window = (capacity: number): RegionPolicySpec =>
  aPolicy({ limits: [{ algorithm: 'fixed_window', capacity, windowMs: HOUR_MS }] })

describe('a policy change', () => {
  it('reaches a running enforcer without any check within 2 s', async () => {
    await region.write([])
    await region.write([bucket(10)])
    const writtenMs = performance.now()
    await expect
      .poll(() => enforcer.policies.current()?.policyCount, { interval: 10, timeout: 2_000 })
      .toBe(1)
    expect(performance.now() - writtenMs).toBeLessThan(2_000)
  })

  it('is in force in every enforcer with the first check after it, in 100 of 100 repeats (B128)', async () => {
    let policy = window(1_000_000)
    await introduce(policy)
    for (let repeat = 0; repeat < 100; repeat++) {
      const capacity = 1_000_000 - repeat
      policy = withLimit(policy, { capacity })
      await region.write([policy])
      for (const one of enforcers) {
        const { answer } = await one.check(tenant)
        expect(answer.degraded).toBe(false)
        expect(answer.decisions[0]?.limit).toBe(capacity)
        expect(answer.revision).toBe(policy.revision)
      }
    }
  })

  it('lets no check under way be decided by older policies, nor fail (INV-8, B128)', async () => {
    let policy = window(1_000_000)
    await introduce(policy)
    let isEditing = true
    const floors: { seen: number; floor: number }[] = []
    const answered = enforcers.map(() => 0)
    let written = policy.revision
    const checkWhileEditing = async (one: TestEnforcer, at: number): Promise<void> => {
      while (isEditing) {
        const floor = written
        const { answer } = await one.check(tenant)
        expect(answer.degraded).toBe(false)
        expect(answer.decisions).toHaveLength(1)
        floors.push({ seen: answer.revision, floor })
        answered[at] = (answered[at] ?? 0) + 1
      }
    }
    const everyoneAnswers = async (): Promise<void> => {
      const before = [...answered]
      const isEach = () => expect(before.filter((count, at) => answered[at] === count)).toEqual([])
      await vi.waitFor(isEach, { timeout: 10_000, interval: 1 })
    }
    const load = Promise.all(enforcers.map(checkWhileEditing))
    const edit = async (): Promise<void> => {
      for (let step = 1; step <= 100; step++) {
        policy = withLimit(policy, { capacity: 1_000_000 + step })
        await region.write([policy])
        written = policy.revision
        // On a slow machine more changes than a check reads again could come before it.
        if (step % CHANGES_BETWEEN === 0) await everyoneAnswers()
      }
      isEditing = false
    }
    await Promise.all([load, edit()])
    expect(floors.length).toBeGreaterThan(100)
    expect(floors.filter(({ seen, floor }) => seen < floor)).toEqual([])
  })

  it('that deletes a policy leaves its descriptors unmatched at once', async () => {
    await introduce(bucket(1))
    expect(await admittedOf(3)).toBe(1)
    await region.write([])
    expect((await enforcer.check(tenant)).answer).toMatchObject({ allowed: true, unmatched: true })
  })

  it('that resets usage counts anew', async () => {
    const policy = bucket(2)
    await introduce(policy)
    expect(await admittedOf(5)).toBe(2)
    await region.write([withLimit(policy, { usageEpoch: 1 })])
    expect(await admittedOf(5)).toBe(2)
  })
})

describe('a limit', () => {
  it('lowered below what is left is clamped at once, goes on refilling, and rises again (B118)', async () => {
    const policy = bucket(100, 10_000)
    await introduce(policy)
    expect((await decision(20)).remaining).toBe(80)
    const lowered = withLimit(policy, { capacity: 10 })
    await region.write([lowered])
    expect(await decision(0)).toMatchObject({ limit: 10, remaining: 10 })
    expect((await decision(10)).allowed).toBe(true)
    await expect
      .poll(async () => (await decision(0)).remaining, { interval: 20, timeout: 5_000 })
      .toBeGreaterThan(0)
    await region.write([withLimit(lowered, { capacity: 50, windowMs: 1_000 })])
    await expect
      .poll(async () => (await decision(0)).remaining, { interval: 20, timeout: 5_000 })
      .toBe(50)
  })

  it('of a window lowered below its count leaves 0, and a wait to the end of the window (B118)', async () => {
    const policy = window(100)
    await introduce(policy)
    expect((await decision(50)).remaining).toBe(50)
    await region.write([withLimit(policy, { capacity: 10 })])
    const denied = await decision()
    expect(denied).toMatchObject({ allowed: false, remaining: 0, limit: 10 })
    expect(denied.retryAfterMs).toBe(denied.resetMs)
  })

  it('raised within its window admits exactly the difference (B119)', async () => {
    const policy = window(10)
    await introduce(policy)
    expect(await admittedOf(50)).toBe(10)
    await region.write([withLimit(policy, { capacity: 20 })])
    expect(await admittedOf(15)).toBe(10)
  })
})
