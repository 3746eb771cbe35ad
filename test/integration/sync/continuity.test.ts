import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { LEASE_STORE_MS } from '../../../services/sync/leadership.ts'
import { LENDER_WAIT_MS } from '../../../shared/core/ledger/constants.ts'
import { LIMIT, startPlane, type TestPlane } from './plane.ts'
import { overshoot, type TestDaemon, untilLeading } from './region.ts'
import { UsageListener } from './usage-listener.ts'

let plane: TestPlane

beforeEach(async () => {
  plane = await startPlane()
  await untilLeading(plane.us.start(), plane.eu.start())
})

afterEach(() => plane?.stop())

const offerBoth = () => {
  const stops = [plane.us.enforcer.offer(200), plane.eu.enforcer.offer(1_000)]
  return () => Promise.all(stops.map((stop) => stop()))
}

const together = () => [...plane.us.enforcer.admissions, ...plane.eu.enforcer.admissions]

async function untilBorrowing(daemon: TestDaemon, timeout: number): Promise<void> {
  await vi.waitFor(
    async () => expect(await daemon.metric('loans_in_units')).toBeGreaterThan(300_000),
    { timeout, interval: 50 },
  )
}

async function homeOf(region: TestPlane['us']): Promise<number | undefined> {
  const { policies } = await region.enforcer.policies()
  return policies[0]?.limits[0]?.home
}

describe('a daemon that restarts over a Redis that kept running', () => {
  it('goes on with the same incarnation, and loans stay sound', async () => {
    const stop = offerBoth()
    await untilBorrowing(plane.eu.daemon(), 8_000)
    const { incarnation } = plane.eu.daemon().service.memory.ledger
    await plane.eu.daemon().kill()
    await untilLeading(plane.eu.start())
    expect(await plane.eu.daemon().metric('sessions_total', { continuity: 'kept' })).toBe(1)
    expect(plane.eu.daemon().service.memory.ledger.incarnation).toBe(incarnation)
    await untilBorrowing(plane.eu.daemon(), 10_000)
    await stop()
    expect(overshoot(together(), LIMIT)).toBe(0)
  })
})

describe('a Redis that restarts empty under a living daemon', () => {
  it('gets its shares and policies again without a recovery, and checks fail only in between', async () => {
    const stop = offerBoth()
    await untilBorrowing(plane.eu.daemon(), 8_000)
    const { incarnation } = plane.eu.daemon().service.memory.ledger
    await plane.eu.redis.restart()
    await vi.waitFor(
      async () => {
        expect(await plane.eu.daemon().metric('sessions_total', { continuity: 'held' })).toBe(1)
      },
      { timeout: 8_000, interval: 20 },
    )
    await untilLeading(plane.eu.daemon())
    expect(plane.eu.daemon().service.memory.ledger.incarnation).toBe(incarnation)
    expect(plane.eu.daemon().service.memory.isRecovering).toBe(false)
    await untilBorrowing(plane.eu.daemon(), 10_000)
    const admitted = plane.eu.enforcer.admitted
    await vi.waitFor(() => expect(plane.eu.enforcer.admitted).toBeGreaterThan(admitted + 500))
    await stop()
    expect(overshoot(together(), LIMIT)).toBe(0)
  })
})

describe('a Redis that hangs', () => {
  it('leaves the daemon in doubt: it tells nothing until it has read again under a new fence', async () => {
    const listener = new UsageListener(plane.nats.url)
    const stop = offerBoth()
    await untilBorrowing(plane.eu.daemon(), 8_000)
    const { fence, incarnation } = plane.eu.daemon().service.memory.ledger
    plane.eu.redis.pause()
    await vi.waitFor(async () => expect(await plane.eu.daemon().metric('in_doubt')).toBe(1), {
      timeout: 5_000,
      interval: 20,
    })
    const toldInDoubt = listener.records.filter((record) => record.from === 'eu-west-1').length
    plane.eu.redis.resume()
    await vi.waitFor(async () => expect(await plane.eu.daemon().metric('in_doubt')).toBe(0), {
      timeout: 8_000,
      interval: 20,
    })
    const toldAfter = () =>
      listener.records.filter((record) => record.from === 'eu-west-1').slice(toldInDoubt)
    await vi.waitFor(() => expect(toldAfter().length).toBeGreaterThan(0), { timeout: 8_000 })
    await untilBorrowing(plane.eu.daemon(), 10_000)
    await stop()
    for (const { mark } of toldAfter()) {
      expect(mark.incarnation).toBe(incarnation)
      expect(mark.fence).toBeGreaterThan(fence)
    }
    expect(overshoot(together(), LIMIT)).toBe(0)
    await listener.close()
  })
})

describe('a region that lost its Redis and its daemon', () => {
  it('uses nothing under a new incarnation until its peer has answered, then has its base, and its usage goes on', async () => {
    const listener = new UsageListener(plane.nats.url)
    for (let i = 0; i < 50; i++) await plane.us.enforcer.check('acme', 10)
    expect([
      plane.us.enforcer.admitted,
      plane.us.enforcer.denied,
      plane.us.enforcer.failed,
    ]).toEqual([500, 0, 0])
    await vi.waitFor(() => expect(listener.total('us-east-1')).toBe(500), { timeout: 5_000 })
    const { incarnation } = plane.us.daemon().service.memory.ledger
    await plane.us.daemon().kill()
    await plane.us.redis.restart()
    const daemon = plane.us.start()
    await vi.waitFor(() => expect(daemon.service.daemon.isServing).toBe(true), {
      timeout: LEASE_STORE_MS + 5_000,
      interval: 20,
    })
    expect(daemon.service.memory.ledger.incarnation).toBeGreaterThan(incarnation)
    expect(await daemon.metric('sessions_total', { continuity: 'lost' })).toBe(1)
    await vi.waitFor(() => expect(daemon.service.memory.isRecovering).toBe(false), {
      timeout: LENDER_WAIT_MS + 3_000,
      interval: 50,
    })
    const { incarnation: next } = daemon.service.memory.ledger
    const newLife = listener.records.filter(({ mark }) => mark.incarnation === next)
    expect(newLife[0]).toMatchObject({ from: 'us-east-1', recovering: true, acks: {} })
    const answer = plane.eu.daemon().service.memory.ledger.pairs.get('us-east-1')?.borrow
    expect(answer?.incarnation).toBe(next)
    expect(await homeOf(plane.us)).toBe(600_000)
    await vi.waitFor(async () => expect(await plane.us.enforcer.check('acme', 100)).toBe(true), {
      timeout: 5_000,
      interval: 50,
    })
    await vi.waitFor(() => expect(listener.total('us-east-1')).toBe(600), { timeout: 5_000 })
    await listener.close()
  })
})

describe('a region that was removed on an operator’s word and comes back with its state', () => {
  it('learns so from admin, or from any peer, and begins anew under a higher incarnation', async () => {
    const { incarnation } = plane.us.daemon().service.memory.ledger
    plane.admin.plane.leastIncarnations = { 'us-east-1': incarnation + 1 }
    plane.admin.plane.revision += 1
    plane.admin.announce()
    await vi.waitFor(
      () => {
        const { ledger, isServing } = plane.us.daemon().service.memory
        expect(ledger.incarnation).toBeGreaterThan(incarnation + 1)
        expect(isServing).toBe(true)
      },
      { timeout: LEASE_STORE_MS + 10_000, interval: 50 },
    )
    expect(await plane.us.daemon().metric('sessions_total', { continuity: 'lost' })).toBe(1)
    const answer = plane.eu.daemon().service.memory.ledger.pairs.get('us-east-1')?.borrow
    expect(answer?.incarnation).toBeGreaterThan(incarnation)
  })
})
