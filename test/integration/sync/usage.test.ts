import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { stateSubject } from '../../../shared/protocol/subjects.ts'
import { LIMIT, startPlane, type TestPlane } from './plane.ts'
import { overshoot, untilLeading } from './region.ts'
import { startEcho, totalOf, UsageListener } from './usage-listener.ts'

let plane: TestPlane
let listener: UsageListener

beforeAll(async () => {
  plane = await startPlane()
  listener = new UsageListener(plane.nats.url)
  await untilLeading(plane.us.start(), plane.eu.start())
})

afterAll(async () => {
  await listener?.close()
  await plane?.stop()
})

/** Waits until everybody's figures of both regions are those of the enforcers. */
async function untilExact(timeout = 5_000): Promise<void> {
  await vi.waitFor(
    () => {
      const truth = [plane.us.enforcer.admitted, plane.eu.enforcer.admitted]
      const tables = [
        listener.table,
        plane.us.daemon().service.memory.usage.table,
        plane.eu.daemon().service.memory.usage.table,
      ]
      for (const table of tables) {
        expect([totalOf(table, 'us-east-1'), totalOf(table, 'eu-west-1')]).toEqual(truth)
      }
    },
    { timeout, interval: 50 },
  )
}

describe('published usage', () => {
  it('is exact, with records going out in the middle of traffic, and never ahead of the truth (B137)', async () => {
    const stopUs = plane.us.enforcer.offer(300)
    const stopEu = plane.eu.enforcer.offer(200)
    await vi.waitFor(
      () => {
        expect(listener.total('us-east-1')).toBeLessThanOrEqual(plane.us.enforcer.admitted)
        expect(listener.records.length).toBeGreaterThan(6)
      },
      { timeout: 8_000, interval: 5 },
    )
    await Promise.all([stopUs(), stopEu()])
    await untilExact()
  })

  it('is the same when records come twice, late and out of order, one’s own among them (B136, B140)', async () => {
    const echo = await startEcho(plane.nats.url, stateSubject('us-east-1'))
    const heardBefore = listener.records.length
    const stopUs = plane.us.enforcer.offer(300)
    const stopEu = plane.eu.enforcer.offer(900)
    await vi.waitFor(() => expect(listener.records.length).toBeGreaterThan(heardBefore + 12), {
      timeout: 10_000,
    })
    await Promise.all([stopUs(), stopEu()])
    await untilExact()
    await echo.close()
    expect(await plane.us.daemon().metric('ledger_alarms', { alarm: 'own-record' })).toBe(0)
    const together = [...plane.us.enforcer.admissions, ...plane.eu.enforcer.admissions]
    expect(overshoot(together, LIMIT)).toBe(0)
  })

  it('is exact again after NATS was away under load, and so are the daemon’s figures after a restart (B139, B142)', async () => {
    const stopUs = plane.us.enforcer.offer(300)
    const stopEu = plane.eu.enforcer.offer(200)
    await plane.nats.halt()
    const sent = await plane.us.daemon().metric('records_unsent_total', { reason: 'not_connected' })
    await vi.waitFor(
      async () => {
        const unsent = await plane.us.daemon().metric('records_unsent_total')
        expect(unsent - sent).toBeGreaterThanOrEqual(3)
      },
      { timeout: 8_000 },
    )
    await plane.us.daemon().stop()
    await untilLeading(plane.us.start())
    await plane.nats.start()
    await Promise.all([stopUs(), stopEu()])
    await untilExact(10_000)
  })

  it('misses nothing of the time between the death of a daemon and the takeover by another', async () => {
    const first = plane.us.daemon()
    const standby = plane.us.start()
    await vi.waitFor(() => expect(standby.service.daemon.phase).toBe('standby'), { timeout: 5_000 })
    const stopUs = plane.us.enforcer.offer(300)
    await first.kill()
    await untilLeading(standby)
    await stopUs()
    await vi.waitFor(
      () => {
        const { table } = standby.service.memory.usage
        expect(totalOf(table, 'eu-west-1')).toBe(plane.eu.enforcer.admitted)
        const heard = [listener.table, plane.eu.daemon().service.memory.usage.table]
        expect(heard.map((one) => totalOf(one, 'us-east-1'))).toEqual([
          plane.us.enforcer.admitted,
          plane.us.enforcer.admitted,
        ])
      },
      { timeout: 5_000, interval: 50 },
    )
  })
})
