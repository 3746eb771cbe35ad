import type { Redis } from 'ioredis'
import { vi } from 'vitest'
import { counterId, counterName, slotGroup } from '../../shared/core/counter-id.ts'
import type { LedgerRow, ShareWrite } from '../../shared/core/ledger/types.ts'
import type {
  RegionLimit,
  RegionLimitSpec,
  RegionPolicy,
  RegionPolicySpec,
} from '../../shared/core/policy.ts'
import type {
  CheckStore,
  LeaseGrant,
  LeaseStore,
  LimitDecision,
  PolicyReader,
  RegionStore,
  RequestCheck,
} from '../../shared/core/ports.ts'
import { POOL_UNITS } from '../../shared/core/units.ts'
import { createCheckStore } from '../../shared/redis/check-store.ts'
import { createRedis } from '../../shared/redis/client.ts'
import { createLeaseStore } from '../../shared/redis/lease-store.ts'
import { createPolicyReader } from '../../shared/redis/policy-reader.ts'
import { connectRegionStore } from '../../shared/redis/region-store.ts'
import { type RedisServer, startRedisServer } from './redis-server.ts'
import { PLAIN_LIMIT, PLAIN_POLICY } from './region-policy.ts'
import { scriptsWithTestTime, TestTime } from './test-time.ts'

/** 2026-10-31T12:00:00Z: far enough from zero for microseconds to need all their digits. */
export const NOON_US = 1_793_448_000_000_000

/** A deadline that only a hung test reaches. */
const PATIENT_MS = 10_000

/** One region's Redis under test time, with its daemon's store and an enforcer's. */
export class RedisRegion {
  readonly server: RedisServer
  readonly redis: Redis
  readonly time: TestTime
  readonly checks: CheckStore
  readonly leases: LeaseStore
  readonly reader: PolicyReader
  daemon: RegionStore
  policies: readonly RegionPolicy[] = []
  limits: readonly RegionLimit[] = []
  version = 0
  #requests = 0

  private constructor(server: RedisServer, redis: Redis, time: TestTime, daemon: RegionStore) {
    this.server = server
    this.redis = redis
    this.time = time
    this.daemon = daemon
    this.checks = createCheckStore({ redis, deadlineMs: PATIENT_MS })
    this.leases = createLeaseStore({ redis })
    this.reader = createPolicyReader({ redis })
  }

  static async start(startUs = NOON_US): Promise<RedisRegion> {
    const server = await startRedisServer()
    const redis = await readyRedis(server.url)
    const time = new TestTime(redis, startUs)
    await time.set(startUs)
    const daemon = await connectDaemon(server.url, time)
    return new RedisRegion(server, redis, time, daemon)
  }

  /** Empties Redis and begins the region's first boot with these limits. */
  async begin(
    limits: readonly RegionLimitSpec[],
    boot: { readonly levels?: 'full' | 'empty'; readonly incarnation?: number } = {},
  ): Promise<void> {
    await this.redis.flushall()
    await this.time.set(this.time.us)
    await this.daemon.open()
    const { levels = 'full', incarnation = 1 } = boot
    await this.daemon.begin({ incarnation, levels, recovering: false })
    await this.write(limits)
    await this.daemon.serve()
  }

  /** Opens the store and begins a further boot, which is not served yet. */
  async boot(incarnation: number, levels: 'full' | 'empty' = 'empty'): Promise<void> {
    await this.daemon.open()
    await this.daemon.begin({ incarnation, levels, recovering: false })
  }

  /** Writes the limits as the region's policies, one policy for each. */
  async write(specs: readonly RegionLimitSpec[], recovering = false): Promise<void> {
    await this.writePolicies(specs.map(policyOf), recovering)
  }

  async writePolicies(specs: readonly RegionPolicySpec[], recovering = false): Promise<void> {
    this.version = await this.daemon.writePolicies({
      revision: 1,
      members: ['here'],
      plane: [],
      region: specs,
      recovering,
    })
    const { policies } = await this.reader.readAll()
    this.policies = policies
    this.limits = policies.flatMap((policy) => policy.limits)
  }

  limit(id = 1): RegionLimit {
    const limit = this.limits.find((one) => one.id === id)
    if (limit === undefined) throw new Error(`no limit ${id}`)
    return limit
  }

  /** A check of a request of its own. */
  target(cost: number, key = 'acme', ids: readonly number[] = [1]): RequestCheck {
    const entries = [{ key: 'tenant', value: key }]
    const group = slotGroup({ domain: 'api', entries })
    return {
      group,
      cost,
      requestId: `request ${++this.#requests}`,
      targets: ids.map((id) => ({
        limit: this.limit(id),
        counter: counterId({
          group,
          limitId: id,
          usageEpoch: this.limit(id).usageEpoch,
          name: counterName(entries, noHash),
        }),
      })),
    }
  }

  counter(key = 'acme', id = 1): string {
    return this.target(0, key, [id]).targets[0]?.counter ?? ''
  }

  /** Decides one check of one limit. */
  async check(cost = 1, key = 'acme', id = 1): Promise<LimitDecision> {
    const { decisions } = await this.checks.check(this.target(cost, key, [id]), this.version)
    const [decision] = decisions
    if (decision === undefined) throw new Error('no decision')
    return decision
  }

  /** Leases a block of `tokens`; null where the limit holds too little. */
  lease(id: string, tokens: number, key = 'acme'): Promise<LeaseGrant | null> {
    return this.leases.grant(this.#leaseOf(id, tokens, key), this.version)
  }

  /** Gives `tokens` of that block back. */
  giveUp(id: string, tokens: number, key = 'acme'): Promise<void> {
    return this.leases.giveUp(this.#leaseOf(id, tokens, key), this.version)
  }

  #leaseOf(id: string, tokens: number, key: string) {
    const { group, targets } = this.target(0, key)
    const [target] = targets
    if (target === undefined) throw new Error('a check has a target')
    return { id, group, target, tokens }
  }

  /** How many of `count` checks of one token, sent at once, are admitted. */
  async admitted(count: number, key = 'acme', id = 1): Promise<number> {
    const all = await Promise.all(Array.from({ length: count }, () => this.check(1, key, id)))
    return all.filter(({ allowed }) => allowed).length
  }

  share(change: Partial<ShareWrite> & { readonly id: string }): Promise<string | undefined> {
    const write: ShareWrite = {
      home: POOL_UNITS,
      borrowed: 0,
      expiresAtMs: null,
      shrinks: false,
      pinned: false,
      row: emptyRow(change.id),
      ...change,
    }
    return this.daemon.writeShares([write]).then((outcomes) => outcomes.get(change.id))
  }

  /** A new daemon on the same Redis, as after a restart of the process. */
  async restartDaemon(): Promise<void> {
    await this.daemon.close()
    this.daemon = await connectDaemon(this.server.url, this.time)
  }

  /** Begins anew on a Redis that came back empty. */
  async reconnect(): Promise<void> {
    await vi.waitFor(() => this.redis.ping(), 5_000)
    await this.time.set(this.time.us)
    await this.restartDaemon()
    await this.begin(this.limits)
  }

  async stop(): Promise<void> {
    await this.daemon.close()
    this.redis.disconnect()
    await this.server.stop()
  }
}

export function connectDaemon(url: string, time: TestTime): Promise<RegionStore> {
  const scripts = scriptsWithTestTime()
  return connectRegionStore({ url, region: 'here', clock: time.clock, scripts })
}

export async function readyRedis(url: string): Promise<Redis> {
  const redis = createRedis({ url, name: 'test', onError: () => {} })
  await new Promise((resolve) => redis.once('ready', resolve))
  return redis
}

/** A limit of 10 tokens a second that is wholly this region's. */
export function aLimit(change: Partial<RegionLimitSpec> = {}): RegionLimitSpec {
  const capacity = change.capacity ?? 10
  return {
    id: 1,
    name: 'per-second',
    algorithm: 'token_bucket',
    ...PLAIN_LIMIT,
    usageEpoch: 0,
    capacity,
    windowMs: 1_000,
    burst: capacity,
    home: POOL_UNITS,
    ...change,
  }
}

export function emptyRow(id: string): LedgerRow {
  return { id, lent: {}, borrowed: {}, quarantine: [] }
}

/** A pinned share of a tracked counter, wholly this region's unless told otherwise. */
export function shareOf(id: string, home = POOL_UNITS): ShareWrite {
  return {
    id,
    home,
    borrowed: 0,
    expiresAtMs: null,
    shrinks: false,
    pinned: true,
    row: emptyRow(id),
  }
}

/** A policy of one limit. */
export function policyOf(limit: RegionLimitSpec): RegionPolicySpec {
  return {
    id: limit.id,
    domain: 'api',
    name: `policy-${limit.id}`,
    revision: 1,
    ...PLAIN_POLICY,
    match: [{ key: 'tenant' }],
    onStoreFailure: 'allow',
    limits: [limit],
  }
}

function noHash(): string {
  throw new Error('names in tests are short')
}
