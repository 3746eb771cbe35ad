/** A region in one process: its Redis, its daemon as a loop, an enforcer's check store, and its view of NATS. */
import { createHash } from 'node:crypto'
import { expect, vi } from 'vitest'
import { assembleSync, type SyncService } from '../../../services/sync/assemble.ts'
import { createSyncMetrics } from '../../../services/sync/metrics.ts'
import { createBusObserver } from '../../../services/sync/observe-bus.ts'
import {
  counterId,
  counterName,
  parseCounterId,
  partName,
  slotGroup,
} from '../../../shared/core/counter-id.ts'
import { partGroup, partOfRequest } from '../../../shared/core/counter-parts.ts'
import type { CounterId } from '../../../shared/core/descriptor.ts'
import type { RegionPolicies } from '../../../shared/core/ports.ts'
import { isQuotaError } from '../../../shared/errors.ts'
import { NatsLink } from '../../../shared/nats/client.ts'
import { NatsCountBus } from '../../../shared/nats/count-bus.ts'
import { NatsPolicyClient } from '../../../shared/nats/policy-client.ts'
import { PolicyPublisher } from '../../../shared/nats/policy-publisher.ts'
import { NatsRecordBus } from '../../../shared/nats/record-bus.ts'
import { NatsRolloutBus } from '../../../shared/nats/rollout-bus.ts'
import { createCheckStore } from '../../../shared/redis/check-store.ts'
import { createRedis } from '../../../shared/redis/client.ts'
import { createPolicyReader } from '../../../shared/redis/policy-reader.ts'
import { connectRegionStore } from '../../../shared/redis/region-store.ts'
import { systemClock } from '../../../shared/runtime/clock.ts'
import { every } from '../../../shared/runtime/every.ts'
import { createLogger } from '../../../shared/runtime/logger.ts'
import { createRegistry } from '../../../shared/runtime/metrics.ts'
import type { MemoryPlane } from '../../support/memory-plane.ts'
import { LOGINS } from '../../support/redis-users.ts'

export const log = createLogger({ service: 'test', level: process.env['TEST_LOG'] ?? 'silent' })

const sha256 = (text: string): string => createHash('sha256').update(text).digest('base64url')

/** The counter of one tenant of a limit of the domain `api`, or of one part of it. */
export function tenantCounter(
  limitId: number,
  tenant: string,
  usageEpoch = 0,
  part = 0,
): CounterId {
  const entries = [{ key: 'tenant', value: tenant }]
  const group = partGroup(slotGroup({ domain: 'api', entries }), part)
  const name = partName(counterName(entries, sha256), part)
  return counterId({ group, limitId, usageEpoch, name })
}

export interface TestDaemon {
  readonly service: SyncService
  readonly link: NatsLink
  /** The figure of a metric, all label sets that hold `labels` added up. */
  metric(name: string, labels?: Readonly<Record<string, string>>): Promise<number>
  stop(): Promise<void>
  /** Breaks its connection to Redis: what it sent last has no reply, a renewal of its lease for one. */
  cutRedis(): Promise<void>
  /** Ends it as `kill -9` does: no last record, the lease not given up. */
  kill(): Promise<void>
}

let daemons = 0

export function startDaemon(options: {
  readonly region: string
  readonly redisUrl: string
  readonly natsUrl: string
}): TestDaemon {
  const { region, redisUrl, natsUrl } = options
  const link = new NatsLink({ url: natsUrl, name: region, region, log })
  const registry = createRegistry({ region }, false)
  const metrics = createSyncMetrics(registry, () => link.isConnected())
  const connections: { close(): Promise<void> }[] = []
  let isKilled = false
  const service = assembleSync({
    region,
    holder: `${region}-${++daemons}`,
    bus: new NatsRecordBus(link, { region, ...createBusObserver(metrics, log) }),
    countBus: new NatsCountBus(link, region),
    policyClient: new NatsPolicyClient(link, () => {}),
    rolloutBus: new NatsRolloutBus(link),
    connect: async () => {
      if (isKilled) throw new Error('killed')
      const store = await connectRegionStore({
        url: redisUrl,
        login: LOGINS.sync,
        region,
        clock: systemClock,
        log,
      })
      connections.push(store)
      return store
    },
    clock: systemClock,
    log: log.child({ region }),
    metrics,
    onBug: (err) => {
      throw err
    },
  })
  link.onReconnect(() => service.feed.wantPull())
  link.start()
  service.daemon.start()
  const end = async (): Promise<void> => {
    await Promise.all(service.loops.map((loop) => loop.stop()))
    await link.close()
  }
  return {
    service,
    link,
    async metric(name, labels = {}) {
      const found = await registry.getSingleMetric(`quotaplane_${name}`)?.get()
      const values = found?.values ?? []
      const matching = values.filter((value) =>
        Object.entries(labels).every(([label, text]) => Reflect.get(value.labels, label) === text),
      )
      return matching.reduce((sum, value) => sum + value.value, 0)
    },
    async stop() {
      await service.daemon.stop(5_000)
      await end()
    },
    async cutRedis() {
      await Promise.all(connections.splice(0).map((connection) => connection.close()))
    },
    async kill() {
      isKilled = true
      await link.close()
      await Promise.all(connections.map((connection) => connection.close()))
      await service.daemon.stop(2_000)
      await end()
    },
  }
}

/** One admission, at an instant of Redis TIME. */
export interface Admission {
  readonly atUs: number
  readonly cost: number
}

/** Checks as an enforcer makes them: under the region's policies, read again when they are stale. */
export class TestEnforcer {
  readonly #redis
  readonly #store
  readonly #reader
  readonly admissions: Admission[] = []
  #policies: RegionPolicies = { version: 0, incarnation: 0, policies: [] }
  #requests = 0
  denied = 0
  failed = 0

  constructor(redisUrl: string) {
    const login = LOGINS.enforcer
    this.#redis = createRedis({ url: redisUrl, login, name: 'enforcer', onError: () => {} })
    this.#store = createCheckStore({ redis: this.#redis, deadlineMs: 1_000 })
    this.#reader = createPolicyReader({ redis: this.#redis })
  }

  get admitted(): number {
    return this.admissions.reduce((sum, { cost }) => sum + cost, 0)
  }

  /** The policies as this enforcer would read them now. */
  async policies(): Promise<RegionPolicies> {
    this.#policies = await this.#reader.readAll()
    return this.#policies
  }

  /** True when admitted; null when Redis could not decide. */
  async check(tenant: string, cost = 1): Promise<boolean | null> {
    for (let attempt = 0; attempt < 3; attempt++) {
      try {
        return await this.#checkOnce(tenant, cost)
      } catch (err) {
        if (!isQuotaError(err)) throw err
        if (err.code !== 'QUOTA_POLICY_STALE') break
        await this.policies()
      }
    }
    this.failed++
    return null
  }

  async #checkOnce(tenant: string, cost: number): Promise<boolean | null> {
    if (this.#policies.version === 0) await this.policies()
    const [policy] = this.#policies.policies
    const [limit] = policy?.limits ?? []
    if (limit === undefined) return null
    const part = partOfRequest(`request-${++this.#requests}`, limit.shards)
    const counter = tenantCounter(limit.id, tenant, limit.usageEpoch, part)
    const group = parseCounterId(counter)?.group ?? 0
    const targets = [{ limit, counter }]
    const answer = await this.#store.check({ group, targets, cost }, this.#policies.version)
    const isAllowed = answer.decisions.every((decision) => decision.allowed)
    if (isAllowed) this.admissions.push({ atUs: answer.atUs, cost })
    else this.denied += cost
    return isAllowed
  }

  /** Offers about `perSecond` checks of `tenant` until stopped. */
  offer(perSecond: number, tenant = 'acme'): () => Promise<void> {
    let lastMs = performance.now()
    let due = 0
    const loop = every(
      { name: 'load', intervalMs: 5, jitter: 0, timeoutMs: 10_000, log, onBug: () => {} },
      async () => {
        const nowMs = performance.now()
        due = Math.min(due + ((nowMs - lastMs) * perSecond) / 1_000, perSecond)
        lastMs = nowMs
        const count = Math.floor(due)
        due -= count
        await Promise.all(Array.from({ length: count }, () => this.check(tenant)))
      },
    )
    return () => loop.stop()
  }

  close(): void {
    this.#redis.disconnect()
  }
}

/** Answers daemons as admin does, from memory. */
export class TestAdmin {
  readonly #link: NatsLink
  readonly #publisher: PolicyPublisher
  readonly plane: MemoryPlane

  constructor(natsUrl: string, plane: MemoryPlane) {
    this.plane = plane
    this.#link = new NatsLink({ url: natsUrl, name: 'admin', log })
    this.#publisher = new PolicyPublisher({ link: this.#link, source: plane, log })
    this.#link.start()
  }

  announce(): void {
    this.#publisher.announce(this.plane.revision)
  }

  close(): Promise<void> {
    return this.#link.close()
  }
}

export async function untilLeading(...daemons: readonly TestDaemon[]): Promise<void> {
  await vi.waitFor(
    () => expect(daemons.every(({ service }) => service.daemon.isServing)).toBe(true),
    { timeout: 20_000, interval: 20 },
  )
}

/**
 * By how many tokens all admissions together passed a bucket of `burst` tokens that refills `perSecond`, at the
 * worst instant: 0 for a limit that held. The clocks of regions may differ by the assumed drift.
 */
export function overshoot(
  admissions: readonly Admission[],
  limit: { readonly burst: number; readonly perSecond: number },
): number {
  const inOrder = [...admissions].sort((one, other) => one.atUs - other.atUs)
  let level = limit.burst
  let lastUs = inOrder[0]?.atUs ?? 0
  let worst = 0
  for (const { atUs, cost } of inOrder) {
    const refill = ((atUs - lastUs) * limit.perSecond * 1.001) / 1e6
    level = Math.min(limit.burst, level + refill) - cost
    lastUs = atUs
    worst = Math.max(worst, -level)
  }
  return worst
}
