import { describe, expect, it, vi } from 'vitest'
import { PolicyCache } from '../../../services/enforcer/policy-cache.ts'
import { REGION_POLICY_FORMAT, refusalOf } from '../../../shared/core/known-policies.ts'
import type { PolicyReader, RegionPolicies } from '../../../shared/core/ports.ts'
import { QuotaError } from '../../../shared/errors.ts'
import { createLogger } from '../../../shared/runtime/logger.ts'
import { aRegionPolicy } from '../../support/region-policy.ts'

const log = createLogger({ service: 'test', level: 'silent' })
let nowMs = 0
const clock = { monotonicMs: () => nowMs, wallMs: () => nowMs }

const snapshot = (version: number, incarnation = 1): RegionPolicies => ({
  version,
  incarnation,
  policies: [aRegionPolicy({ revision: 10 * version })],
})

/** A reader whose newest snapshot is `held.now`; an error stands for Redis being away. */
function heldBy(held: { now: RegionPolicies | Error }) {
  const read = async (): Promise<RegionPolicies> => {
    if (held.now instanceof Error) throw held.now
    return held.now
  }
  const reader = {
    readHead: vi.fn(async () => {
      const { version, revision = 0 } = await read()
      return { version, revision }
    }),
    readAll: vi.fn(read),
  } satisfies PolicyReader
  return { reader, cache: new PolicyCache({ reader, clock, log }) }
}

describe('PolicyCache', () => {
  it('knows nothing until the daemon has written policies', async () => {
    const held = { now: snapshot(0) }
    const { cache } = heldBy(held)
    await cache.pollOnce()
    expect(cache.current()).toBeNull()
    held.now = snapshot(1)
    await cache.pollOnce()
    expect(cache.current()).toMatchObject({ version: 1, revision: 10 })
  })

  it('reads all policies only when the version differs', async () => {
    const { cache, reader } = heldBy({ now: snapshot(3) })
    for (let turn = 0; turn < 5; turn++) await cache.pollOnce()
    expect(reader.readAll).toHaveBeenCalledTimes(1)
  })

  it('keeps the highest version in whatever order snapshots arrive', async () => {
    const answers: ((policies: RegionPolicies) => void)[] = []
    const reader: PolicyReader = {
      readHead: async () => ({ version: 2, revision: 20 }),
      readAll: () => new Promise((resolve) => answers.push(resolve)),
    }
    const cache = new PolicyCache({ reader, clock, log })
    for (const version of [2, 1, 3, 2]) {
      const read = cache.refresh()
      answers.shift()?.(snapshot(version))
      await read
    }
    expect(cache.current()?.version).toBe(3)
  })

  it('takes the policies of a later incarnation, whose versions start again', async () => {
    const held = { now: snapshot(9, 1) }
    const { cache } = heldBy(held)
    await cache.pollOnce()
    held.now = snapshot(1, 2)
    await cache.pollOnce()
    expect(cache.current()).toMatchObject({ version: 1, incarnation: 2 })
    held.now = snapshot(10, 1)
    await cache.pollOnce()
    expect(cache.current()).toMatchObject({ version: 1, incarnation: 2 })
  })

  it('keeps the last known policies while Redis is away or has lost them', async () => {
    const held: { now: RegionPolicies | Error } = { now: snapshot(4) }
    const { cache } = heldBy(held)
    await cache.pollOnce()
    held.now = new QuotaError('QUOTA_STORE_UNAVAILABLE', 'away')
    await expect(cache.pollOnce()).rejects.toThrow('away')
    expect(cache.current()?.version).toBe(4)
    held.now = snapshot(0)
    await cache.pollOnce()
    expect(cache.current()?.version).toBe(4)
  })

  it('reads at most twice for all who ask meanwhile, the second time after they asked', async () => {
    const held = { now: snapshot(1) }
    const { cache, reader } = heldBy(held)
    const first = cache.refresh()
    held.now = snapshot(2)
    await Promise.all([first, cache.refresh(), cache.refresh(), cache.refresh()])
    expect(reader.readAll).toHaveBeenCalledTimes(2)
    expect(cache.current()?.version).toBe(2)
    await cache.refresh()
    expect(reader.readAll).toHaveBeenCalledTimes(3)
  })

  it('reads again for those who asked during a read that failed', async () => {
    const held: { now: RegionPolicies | Error } = { now: new Error('away') }
    const { cache } = heldBy(held)
    const failing = cache.refresh()
    const following = cache.refresh()
    await expect(failing).rejects.toThrow('away')
    held.now = snapshot(2)
    await following.catch(() => cache.refresh())
    expect(cache.current()?.version).toBe(2)
  })

  it('says how long ago Redis confirmed the version', async () => {
    const held: { now: RegionPolicies | Error } = { now: snapshot(1) }
    const { cache } = heldBy(held)
    expect(cache.ageMs()).toBeNull()
    nowMs = 1_000
    await cache.pollOnce()
    nowMs = 1_300
    expect(cache.ageMs()).toBe(300)
    held.now = new Error('away')
    await cache.pollOnce().catch(() => {})
    expect(cache.ageMs()).toBe(300)
  })

  it('B124: refuses as a whole what it would not enforce, keeps what it has, and tells why', async () => {
    const held = { now: snapshot(1) }
    const { reader } = heldBy(held)
    const onApplied = vi.fn()
    const cache = new PolicyCache({ reader, clock, log, onApplied })
    await cache.pollOnce()
    expect(cache.applied).toMatchObject({ revision: 10, refused: null })
    held.now = { ...snapshot(2), revision: 20, format: REGION_POLICY_FORMAT + 1 }
    for (let turn = 0; turn < 3; turn++) await cache.pollOnce()
    await cache.refresh()
    expect(reader.readAll).toHaveBeenCalledTimes(2)
    expect(onApplied).toHaveBeenCalledTimes(2)
    expect(cache.current()?.version).toBe(1)
    const { refused } = cache.applied
    expect(refused).toEqual({ revision: 20, reason: expect.stringContaining('upgrade it') })
    held.now = snapshot(3)
    await cache.pollOnce()
    expect(cache.applied).toMatchObject({ revision: 30, refused: null })
  })

  it('refuses an algorithm, a mode, a behaviour and an override that it does not know', () => {
    const [policy] = snapshot(1).policies
    const changes: readonly object[] = [
      { limits: [{ ...policy?.limits[0], algorithm: 'dice' }] },
      { mode: 'lenient' },
      { onStoreFailure: 'shrug' },
      { overrides: [{ value: 'acme', rule: { kind: 'double' } }] },
    ]
    const refusals = changes.map((change) =>
      refusalOf({ ...snapshot(1), policies: [Object.assign({}, policy, change)] }),
    )
    for (const word of ['dice', 'lenient', 'shrug', 'double']) {
      expect(refusals.join()).toContain(word)
    }
    expect(refusalOf(snapshot(1))).toBeNull()
  })

  it('applies the revision that left all it enforces as it was', async () => {
    const held = { now: { ...snapshot(1), revision: 10 } }
    const { cache } = heldBy(held)
    nowMs = 5_000
    await cache.pollOnce()
    expect(cache.applied).toMatchObject({ revision: 10, sinceMs: 5_000 })
    held.now = { ...snapshot(1), revision: 11 }
    nowMs = 6_000
    await cache.pollOnce()
    expect(cache.applied).toMatchObject({ revision: 11, sinceMs: 6_000 })
  })
})
