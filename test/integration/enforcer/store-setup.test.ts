import { Redis } from 'ioredis'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { systemClock } from '../../../shared/runtime/clock.ts'
import { LOGINS } from '../../support/redis-users.ts'
import { aPolicy, startRegion, type TestEnforcer, type TestRegion } from './region.ts'

const WARN = 40

let region: TestRegion
let redis: Redis

beforeEach(async () => {
  region = await startRegion([aPolicy()])
  redis = new Redis(region.redis.url)
})
afterEach(async () => {
  redis.disconnect()
  await region.stop()
})

const looked = (enforcer: TestEnforcer) =>
  expect
    .poll(() => enforcer.series('quotaplane_loop_runs', 'loop="store"'), { timeout: 5_000 })
    .toBeGreaterThan(0)

const warnings = ({ lines }: TestEnforcer) => lines.filter(({ level }) => level >= WARN)

async function clockOf({ app }: TestEnforcer) {
  const { status, checks } = (await app.inject('/readyz?verbose')).json()
  return { status, ...checks.find(({ name }: { name: string }) => name === 'store-clock') }
}

describe('an enforcer that starts', () => {
  it('warns of nothing where all is well', async () => {
    const enforcer = await region.startEnforcer()
    await looked(enforcer)
    expect(await clockOf(enforcer)).toMatchObject({ ready: true })
    expect(warnings(enforcer)).toEqual([])
  })

  it('says at once, before any check, that Redis refuses to tell the time, and that it may again (B112)', async () => {
    await redis.acl('SETUSER', LOGINS.enforcer.username, '-time')
    const enforcer = await region.startEnforcer()
    await expect
      .poll(() => clockOf(enforcer), { timeout: 5_000 })
      .toMatchObject({ status: 'ready', ready: false, detail: expect.stringContaining('TIME') })
    const errors = enforcer.lines.filter(({ level }) => level > WARN)
    expect(errors).toMatchObject([{ msg: expect.stringContaining('+time') }])
    expect(await enforcer.series('quotaplane_store_clock_refused')).toBe(1)
    expect((await enforcer.check('acme')).answer).toMatchObject({ degraded: true })
    await redis.acl('SETUSER', LOGINS.enforcer.username, '+time')
    enforcer.watch()
    await expect.poll(() => clockOf(enforcer), { timeout: 5_000 }).toMatchObject({ ready: true })
    expect((await enforcer.check('acme')).answer).toMatchObject({ degraded: false })
  })

  it.each([
    [-10_000, 'ahead of', 10],
    [10_000, 'behind', -10],
  ])(
    'says at once that its clock and that of Redis differ, here by %d ms (B112)',
    async (byMs, way, aheadS) => {
      const clock = { ...systemClock, wallMs: () => systemClock.wallMs() + byMs }
      const enforcer = await region.startEnforcer({ clock })
      await expect
        .poll(() => clockOf(enforcer), { timeout: 5_000 })
        .toMatchObject({
          ready: false,
          detail: expect.stringMatching(new RegExp(`at least (9|10) s ${way}`)),
        })
      expect(warnings(enforcer)).toMatchObject([
        { level: WARN, msg: expect.stringContaining('far off') },
      ])
      const told = await enforcer.series('quotaplane_store_clock_ahead_seconds')
      expect(Math.abs(told - aheadS)).toBeLessThan(1)
      // It decides all the same: by the clock of Redis alone.
      expect((await enforcer.check('acme')).answer).toMatchObject({
        allowed: true,
        degraded: false,
      })
    },
  )
})

describe('a sync daemon that starts', () => {
  it('says that it is TIME that Redis refuses (B112)', async () => {
    await redis.acl('SETUSER', LOGINS.sync.username, '-time')
    await expect(region.reopen()).rejects.toMatchObject({
      message: 'ask Redis for its TIME failed',
      cause: { message: expect.stringContaining("'time'") },
    })
  })
})
