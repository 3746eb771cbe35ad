import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { LEASE_STORE_MS } from '../../../services/sync/leadership.ts'
import { connectRegionStore } from '../../../shared/redis/region-store.ts'
import { systemClock } from '../../../shared/runtime/clock.ts'
import { LIMIT, startPlane, type TestPlane } from './plane.ts'
import { log, overshoot, untilLeading } from './region.ts'

let plane: TestPlane

beforeEach(async () => {
  plane = await startPlane()
})

afterEach(() => plane?.stop())

describe('a second daemon of a region', () => {
  it('waits without any effect, and takes over under a higher fence once the first is dead', async () => {
    const first = plane.us.start()
    await untilLeading(first)
    const second = plane.us.start()
    await vi.waitFor(() => expect(second.service.daemon.phase).toBe('standby'), { timeout: 5_000 })
    expect(await second.metric('leading')).toBe(0)
    expect(await second.metric('records_sent_total')).toBe(0)

    const fence = first.service.memory.ledger.fence
    await first.kill()
    await vi.waitFor(() => expect(second.service.daemon.isServing).toBe(true), {
      timeout: LEASE_STORE_MS + 3_000,
      interval: 20,
    })
    expect(second.service.memory.ledger.fence).toBeGreaterThan(fence)
    expect(await second.metric('sessions_total', { continuity: 'kept' })).toBe(1)
    expect(second.service.memory.isRecovering).toBe(false)
    expect(await plane.us.enforcer.check('acme')).toBe(true)
  })

  it('stays one though renewals of the first are lost, and takes over a lender whose loans go on (B151)', async () => {
    const [first, eu] = [plane.us.start(), plane.eu.start()]
    await untilLeading(first, eu)
    const second = plane.us.start()
    const stop = plane.eu.enforcer.offer(900)
    const borrowed = () => eu.service.memory.ledger.pairs.get('us-east-1')?.borrow
    await vi.waitFor(
      () => {
        const row = [...eu.service.memory.ledger.keys.values()][0]?.row
        expect(row?.borrowed['us-east-1']?.lent).toBeGreaterThan(0)
        expect(second.service.daemon.phase).toBe('standby')
      },
      { timeout: 10_000, interval: 20 },
    )
    const term = borrowed()
    for (let lost = 1; lost <= 2; lost++) {
      const { fence } = first.service.memory.ledger
      await first.cutRedis()
      await vi.waitFor(
        () => {
          expect(first.service.memory.ledger.fence).toBeGreaterThan(fence)
          expect(first.service.daemon.isServing).toBe(true)
        },
        { timeout: LEASE_STORE_MS, interval: 20 },
      )
      expect(second.service.daemon.phase).toBe('standby')
    }
    expect(await first.metric('sessions_total', { continuity: 'kept' })).toBe(2)
    expect(borrowed()).toEqual(term)

    await first.kill()
    await untilLeading(second)
    await vi.waitFor(
      () => {
        const { heard } = eu.service.memory.ledger
        const { fence } = second.service.memory.ledger
        expect(heard.get('us-east-1')?.record.mark.fence).toBe(fence)
      },
      { timeout: 5_000, interval: 20 },
    )
    await stop()
    expect(borrowed()).toMatchObject({ term: term?.term, dead: false })
    expect(overshoot(plane.eu.enforcer.admissions, LIMIT)).toBe(0)
  })

  it('takes over at once when the first one leaves in order', async () => {
    const first = plane.us.start()
    await untilLeading(first)
    const second = plane.us.start()
    await vi.waitFor(() => expect(second.service.daemon.phase).toBe('standby'), { timeout: 5_000 })
    await first.stop()
    await vi.waitFor(() => expect(second.service.daemon.isServing).toBe(true), {
      timeout: LEASE_STORE_MS - 2_000,
      interval: 20,
    })
  })
})

describe('a daemon whose store was opened by another', () => {
  it('is refused its next write, publishes nothing on it, and begins again under a new fence (INV-7)', async () => {
    const daemon = plane.us.start()
    await untilLeading(daemon)
    const { fence } = daemon.service.memory.ledger
    const intruder = await connectRegionStore({
      url: plane.us.redis.url,
      region: 'us-east-1',
      clock: systemClock,
      log,
    })
    const opened = await intruder.open()
    await intruder.close()
    expect(opened.fence).toBeGreaterThan(fence)
    await vi.waitFor(
      () => {
        expect(daemon.service.daemon.isServing).toBe(true)
        expect(daemon.service.memory.ledger.fence).toBeGreaterThan(opened.fence)
      },
      { timeout: 5_000, interval: 20 },
    )
    expect(await daemon.metric('session_failures_total', { code: 'QUOTA_FENCED' })).toBe(1)
    expect(await daemon.metric('in_doubt')).toBe(0)
  })
})
