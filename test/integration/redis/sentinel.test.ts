import { afterAll, beforeAll, expect, it, vi } from 'vitest'
import type { RegionLimit } from '../../../shared/core/policy.ts'
import { createCheckStore } from '../../../shared/redis/check-store.ts'
import { createPolicyReader } from '../../../shared/redis/policy-reader.ts'
import { openRegionRedis, type RegionRedis } from '../../../shared/redis/region-redis.ts'
import { connectRegionStore } from '../../../shared/redis/region-store.ts'
import { systemClock } from '../../../shared/runtime/clock.ts'
import { aLimit, policyOf } from '../../support/redis-region.ts'
import { type SentinelServers, startSentinel } from '../../support/sentinel-servers.ts'

/** A region whose Redis has a replica and a real sentinel beside it. */

let servers: SentinelServers
let redis: RegionRedis

beforeAll(async () => {
  servers = await startSentinel()
  const { url } = servers
  redis = openRegionRedis({ url, name: 'enforcer', onError: () => {}, onReady: () => {} })
}, 60_000)
afterAll(async () => {
  redis.disconnect()
  await servers.stop()
})

it('follows the sentinels to another master, which decides only once the daemon has served it (B089)', async () => {
  const limit = aLimit({ algorithm: 'fixed_window', capacity: 1_000, windowMs: 3_600_000 })
  const checks = createCheckStore({ redis, deadlineMs: 5_000 })
  const reader = createPolicyReader({ redis })
  const connect = () => connectRegionStore({ url: servers.url, region: 'here', clock: systemClock })
  const boot = async (incarnation: number): Promise<number> => {
    await daemon.begin({ incarnation, levels: 'full', recovering: false })
    const region = [policyOf(limit)]
    const change = { revision: 1, members: ['here'], plane: [], region, recovering: false }
    const version = await daemon.writePolicies(change)
    await daemon.serve()
    return version
  }
  // As an enforcer does, it goes on with the policies that it has read last.
  let known: RegionLimit | undefined
  const check = async (version: number) => {
    const [policy] = (await reader.readAll()).policies
    known = policy?.limits[0] ?? known
    if (known === undefined) throw new Error('no policies yet')
    const targets = [{ limit: known, counter: '{04s}1.0:tenant=acme' }]
    return (await checks.check({ group: 0, cost: 1, targets }, version)).decisions[0]
  }
  let daemon = await connect()
  await daemon.open()
  let version = await boot(1)
  expect(await check(version)).toMatchObject({ allowed: true, remaining: 999 })

  await servers.failOver()
  // Until then it fails for other reasons: the old master is cut off, or has become a replica.
  await vi.waitFor(() => expect(check(version)).rejects.toThrow(/no sync daemon serves/), {
    timeout: 30_000,
    interval: 50,
  })
  expect(servers.second.log()).toContain('MASTER MODE enabled')
  await vi.waitFor(
    async () => {
      await daemon.close()
      daemon = await connect()
      expect((await daemon.open()).scriptsLoaded).toBe(false)
      version = await boot(2)
      expect(await check(version)).toMatchObject({ allowed: true })
    },
    { timeout: 30_000, interval: 200 },
  )
  await daemon.close()
}, 90_000)
