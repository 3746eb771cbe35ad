import { readFileSync } from 'node:fs'
import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest'
import { runProgram } from '../../../services/cli/program.ts'
import type { EnforcerStatus } from '../../../shared/core/rollout.ts'
import type { DoctorFinding } from '../../../shared/protocol/doctor.ts'
import type { SyncFacts } from '../../../shared/protocol/facts.ts'
import { decodeReport, encodeReport } from '../../../shared/protocol/rollout-report.ts'
import { createRedis } from '../../../shared/redis/client.ts'
import { readRedisFacts } from '../../../shared/redis/redis-facts.ts'
import { PACKAGE_VERSION } from '../../../shared/runtime/assets.ts'
import { type RedisServer, startRedisServer } from '../../support/redis-server.ts'
import { ioWith } from '../../unit/cli/fake-io.ts'
import { serve } from '../../unit/client/http-server.ts'
import { aRecord } from '../admin/a-record.ts'
import { type Admin, startAdmin, TOKEN } from '../admin/admin-harness.ts'

const REGIONS = ['eu-west-1', 'us-east-1'] as const
let admin: Admin
let server: RedisServer
let redis: ReturnType<typeof createRedis>
let env: Record<string, string>
beforeAll(async () => {
  admin = await startAdmin()
  server = await startRedisServer()
  redis = createRedis({ url: server.url, name: 'test', onError: () => {} })
  await admin.register(...REGIONS)
  await admin.create()
  await admin.follower.stepOnce()
  const url = await admin.app.listen({ host: '127.0.0.1', port: 0 })
  env = { QUOTAPLANE_URL: url, QUOTAPLANE_TOKEN: TOKEN }
  await vi.waitFor(() => expect(redis.status).toBe('ready'))
})
afterAll(async () => {
  redis.disconnect()
  await server.stop()
  await admin.close()
})

/** Nothing listens on port 2. */
const NOWHERE = '127.0.0.1:2'

function enforcer(changes: Partial<EnforcerStatus> = {}): EnforcerStatus {
  const revision = admin.cache.revision
  const well = { id: 'one', name: NOWHERE, version: PACKAGE_VERSION, refused: null }
  return { ...well, revision, sinceMs: admin.clock.nowMs, ...changes }
}

/** What each region says of its enforcers; eu-west-1 has these. */
function tellEnforcers(enforcers: readonly EnforcerStatus[]): void {
  for (const from of REGIONS) {
    const { revision, sinceMs } = enforcer()
    const report = { from, revision, sinceMs, heard: revision, refused: null, waitsFor: null }
    const own = from === REGIONS[0] ? enforcers : [enforcer()]
    const sent = decodeReport(encodeReport({ ...report, enforcers: own, unlisted: 0 }))
    if (sent !== null) admin.rollouts.hear(sent, REGIONS, admin.clock.nowMs)
  }
}

/** A leader and its standby in each region, all well and just heard; `change` breaks a leader's facts. */
async function tell(change: (facts: SyncFacts) => Partial<SyncFacts> = () => ({})): Promise<void> {
  admin.clock.nowMs += 60_000
  const facts = await readRedisFacts(redis)
  if (facts === null) throw new Error('Redis does not answer')
  for (const [place, from] of REGIONS.entries()) {
    admin.follower.hear(aRecord({ from, policyRevision: admin.cache.revision }))
    for (const daemon of ['leader', 'standby']) {
      const well: SyncFacts = {
        v: 1,
        from,
        daemon: `${from}.${daemon}`,
        version: PACKAGE_VERSION,
        isLeading: daemon === 'leader',
        sentAtMs: admin.clock.nowMs,
        redis: { ...facts, timeMs: admin.clock.nowMs, isPersistent: true },
        natsVersion: '2.9.10',
        peers: REGIONS.filter((region) => region !== from).map((region) => ({
          region,
          ageMs: 500,
        })),
        overAdmitted: 0,
        alarms: 0,
      }
      const broken = place === 0 && daemon === 'leader' ? change(well) : {}
      admin.facts.hear({ ...well, ...broken }, REGIONS, admin.clock.nowMs)
    }
  }
  tellEnforcers([enforcer()])
}

async function doctor(...args: readonly string[]) {
  const io = ioWith({ env })
  const exitCode = await runProgram(['doctor', ...args], io)
  return { exitCode, out: io.written.out, err: io.written.err }
}

/** What is amiss, but for what a test has of itself: no NATS for admin, and a clock of its own. */
async function amiss(): Promise<readonly string[]> {
  const { out } = await doctor('-o', 'json')
  const { findings } = JSON.parse(out) as { findings: readonly DoctorFinding[] }
  return findings
    .filter(({ severity }) => severity === 'warning' || severity === 'problem')
    .filter(({ part }) => part !== 'admin' && part !== 'this machine')
    .map(({ severity, part, check }) => `${severity} ${part}: ${check}`)
}

describe('quotaplane doctor', () => {
  beforeEach(() => redis.config('SET', 'maxmemory-policy', 'noeviction'))

  it('finds nothing amiss where all is well, and lists what is well when asked', async () => {
    await tell()
    expect(await amiss()).toEqual([])
    expect((await doctor('--all')).out).toMatch(/ok +redis of us-east-1 +evicts nothing/)
  })

  it('sees a Redis that evicts, and says what to do (B085)', async () => {
    await redis.config('SET', 'maxmemory-policy', 'allkeys-lru')
    await tell()
    expect(await amiss()).toEqual(REGIONS.map((region) => `warning redis of ${region}: eviction`))
    await redis.config('SET', 'maxmemory', '100000000')
    await tell()
    expect(await amiss()).toEqual(REGIONS.map((region) => `problem redis of ${region}: eviction`))
    const { exitCode, out } = await doctor()
    expect(exitCode).toBe(1)
    expect(out).toContain('set maxmemory-policy noeviction')
    await redis.config('SET', 'maxmemory', '0')
  })

  const breakages: readonly (readonly [
    string,
    (facts: SyncFacts) => Partial<SyncFacts>,
    string,
  ])[] = [
    ['no Redis', () => ({ redis: null }), 'problem redis of eu-west-1: reachable'],
    [
      'a replica in place of a primary',
      ({ redis: was }) => ({ redis: was && { ...was, role: 'slave' } }),
      'problem redis of eu-west-1: role',
    ],
    [
      'evicted keys',
      ({ redis: was }) => ({ redis: was && { ...was, evictedKeys: 3 } }),
      'problem redis of eu-west-1: evicted',
    ],
    [
      'memory that is nearly full',
      ({ redis: was }) => ({ redis: was && { ...was, usedBytes: 95, maxmemoryBytes: 100 } }),
      'warning redis of eu-west-1: memory',
    ],
    [
      'clocks that differ',
      ({ redis: was }) => ({ redis: was && { ...was, timeMs: was.timeMs + 900 } }),
      'problem us-east-1, eu-west-1: clocks',
    ],
    ['a link that is cut', () => ({ peers: [] }), 'problem us-east-1 > eu-west-1: links'],
    ['an exceeded limit', () => ({ overAdmitted: 2 }), 'problem eu-west-1: over-admission'],
    ['an alarm', () => ({ alarms: 1 }), 'problem eu-west-1: alarms'],
    ['another version', () => ({ version: '0.0.1' }), 'warning eu-west-1: version'],
    ['no leader', () => ({ isLeading: false }), 'problem eu-west-1: leader'],
    ['no standby', ({ from }) => ({ daemon: `${from}.standby` }), 'warning eu-west-1: standby'],
  ]
  it.each(breakages)('sees %s', async (_what, change, expected) => {
    await tell(change)
    const found = await amiss()
    expect(found).toContain(expected)
  })

  it.each([
    ['no enforcer at all', () => [], 'warning enforcers of eu-west-1: alive'],
    [
      'one that refuses policies',
      () => [enforcer({ revision: 1, refused: { revision: 2, reason: 'too new' } })],
      'problem enforcers of eu-west-1: policies',
    ],
    [
      'one that is behind',
      () => [enforcer({ revision: 1 })],
      'warning enforcers of eu-west-1: policies',
    ],
    [
      'one of another version',
      () => [enforcer({ version: '0.0.1' })],
      'warning enforcers of eu-west-1: version',
    ],
  ])('sees %s', async (_what, enforcers, expected) => {
    await tell()
    tellEnforcers(enforcers())
    expect(await amiss()).toEqual([expected])
  })

  it('names the parts to upgrade in the order that docs/running.md has', async () => {
    const [, steps = ''] = readFileSync('docs/running.md', 'utf8').split('\n## Upgrade')
    const titles = [...steps.matchAll(/^\d\. \*\*([^*]+)\*\*/gm)].map(([, title]) => title)
    const parts = /enforcers|sync daemons|admins/g
    await tell(() => ({ version: '0.0.1' }))
    tellEnforcers([enforcer({ version: '0.0.1' })])
    const { findings } = JSON.parse((await doctor('--json')).out) as { findings: DoctorFinding[] }
    const fixes = findings.filter(({ check, severity }) => check === 'version' && severity !== 'ok')
    expect(fixes).toHaveLength(2)
    for (const { fix } of fixes) expect(fix?.match(parts)).toEqual(titles.join().match(parts))
  })

  it('has the same figure of the clocks in the metrics', async () => {
    await tell(({ redis: was }) => ({ redis: was && { ...was, timeMs: was.timeMs + 900 } }))
    const { body } = await admin.app.inject({ method: 'GET', url: '/metrics' })
    const ahead = [...body.matchAll(/_clock_ahead_seconds\{.*peer="([^"]+)".*\} (\S+)/g)]
    const told = ahead.map(([, peer, seconds]) => `${peer} ${seconds}`)
    expect(told.sort()).toEqual(['eu-west-1 0.9', 'us-east-1 0'])
    admin.clock.nowMs += 60_000
    const later = (await admin.app.inject({ method: 'GET', url: '/metrics' })).body
    expect(later).not.toMatch(/_clock_ahead_seconds\{/)
  })

  it('asks each enforcer whether it is ready, and says which it could not reach', async () => {
    const server = await serve((turn, res) => {
      res.writeHead(turn === 1 ? 200 : 503)
      res.end(turn === 1 ? '{}' : 'no policies yet')
    })
    const name = new URL(server.url).host
    await tell()
    tellEnforcers([enforcer({ id: 'a', name: `${name}#1` }), enforcer({ id: 'b', name })])
    const { out } = await doctor('--all')
    expect(server.seen).toMatchObject([{ path: '/readyz' }, { path: '/readyz' }])
    expect(out).toMatch(/problem +enforcers of eu-west-1 +\S+ is not ready: no policies yet/)
    expect(out).toMatch(/ok +enforcers of eu-west-1 +1 answer here, and are ready/)
    expect(out).toMatch(/note +enforcers of us-east-1 +127\.0\.0\.1:2 cannot be reached/)
    await server.close()
  })

  it('tells of enforcers that are older than their word on it', async () => {
    await tell()
    const { version: _version, ...older } = enforcer()
    tellEnforcers([older])
    expect(await amiss()).toEqual([])
  })

  it('sees regions that are silent or behind, and tokens that end soon', async () => {
    await tell()
    const expiresAt = new Date(admin.clock.nowMs + 3 * 86_400_000)
    const body = { name: 'ends-soon', scopes: ['quota:read'], expiresInDays: 3 }
    expect(await admin.call('POST', '/v1/tokens', body)).toMatchObject({ status: 201 })
    expect((await doctor()).out).toMatch(/the token ends-soon expires in [23] days/)
    expect(expiresAt.getTime()).toBeGreaterThan(admin.clock.nowMs)
    const { etag } = await admin.call('GET', '/v1/domains/api/policies/per-tenant')
    await admin.call('DELETE', '/v1/domains/api/policies/per-tenant', undefined, {
      'if-match': etag ?? '',
    })
    await admin.follower.stepOnce()
    expect(await amiss()).toEqual(
      expect.arrayContaining(REGIONS.map((region) => `warning ${region}: revision`)),
    )
    admin.clock.nowMs += 60_000
    expect(await amiss()).toEqual(
      expect.arrayContaining(REGIONS.map((region) => `problem ${region}: reporting`)),
    )
  })

  it('ends with 2 where it cannot look', async () => {
    env = { ...env, QUOTAPLANE_TOKEN: 'wrong' }
    expect(await doctor()).toMatchObject({ exitCode: 2, out: '' })
    env = { ...env, QUOTAPLANE_URL: 'http://127.0.0.1:1' }
    expect(await doctor()).toMatchObject({
      exitCode: 2,
      err: expect.stringContaining('127.0.0.1:1'),
    })
  })
})
