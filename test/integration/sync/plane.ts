/** Two regions on one NATS, with an admin in memory. */
import type { Policy } from '../../../shared/core/policy.ts'
import { aPolicy, MemoryPlane } from '../../support/memory-plane.ts'
import { type NatsServer, startNats } from '../../support/nats-server.ts'
import { type RedisServer, startRedisServer } from '../../support/redis-server.ts'
import { USER_ARGUMENTS } from '../../support/redis-users.ts'
import { startDaemon, TestAdmin, type TestDaemon, TestEnforcer } from './region.ts'

export const REGIONS = ['us-east-1', 'eu-west-1'] as const
export type TestRegionId = (typeof REGIONS)[number]

/** Each limit of these tests: 1,000 tokens a second, a burst of as many, split 60/40. */
export const LIMIT = { burst: 1_000, perSecond: 1_000 } as const

export interface TestPlane {
  readonly nats: NatsServer
  readonly admin: TestAdmin
  readonly us: TestRegion
  readonly eu: TestRegion
  stop(): Promise<void>
}

export interface TestRegion {
  readonly region: TestRegionId
  readonly redis: RedisServer
  readonly enforcer: TestEnforcer
  /** Started by the test; the last one is stopped with the plane. */
  daemon(): TestDaemon
  start(): TestDaemon
}

export async function startPlane(policy: Policy = aPolicy()): Promise<TestPlane> {
  const nats = await startNats()
  const plane = new MemoryPlane(REGIONS)
  plane.put(policy)
  const admin = new TestAdmin(nats.url, plane)
  const regions = await Promise.all(REGIONS.map((region) => startRegion(region, nats.url)))
  const [us, eu] = regions
  if (us === undefined || eu === undefined) throw new Error('two regions were started')
  return {
    nats,
    admin,
    us: us.region,
    eu: eu.region,
    async stop() {
      await Promise.all(regions.map((one) => one.stop()))
      await admin.close()
      await nats.stop()
    },
  }
}

async function startRegion(region: TestRegionId, natsUrl: string) {
  const redis = await startRedisServer({ args: USER_ARGUMENTS })
  const enforcer = new TestEnforcer(redis.url)
  const daemons: TestDaemon[] = []
  const view: TestRegion = {
    region,
    redis,
    enforcer,
    daemon() {
      const last = daemons.at(-1)
      if (last === undefined) throw new Error(`no daemon of ${region} was started`)
      return last
    },
    start() {
      const daemon = startDaemon({ region, redisUrl: redis.url, natsUrl })
      daemons.push(daemon)
      return daemon
    },
  }
  return {
    region: view,
    async stop() {
      enforcer.close()
      await Promise.all(daemons.map((daemon) => daemon.stop()))
      await redis.stop()
    },
  }
}
