import { join } from 'node:path'
import { Agent, request } from 'undici'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { STORE_FAILURE_BEHAVIOURS } from '../../shared/core/policy.ts'
import { CHECK_DEADLINE_MS } from '../../shared/redis/check-store.ts'
import { STRETCH_MAX } from '../../shared/redis/deadlines.ts'
import { PACKAGE_ROOT } from '../../shared/runtime/assets.ts'
import { aPolicy, startRegion, type TestRegion } from '../integration/enforcer/region.ts'
import { LOGINS } from '../support/redis-users.ts'
import { type ServerProcess, startServer } from '../support/server-process.ts'

/** An enforcer that is given nothing but what it needs, so that each deadline is its own, while its Redis hangs. */

/** One check in so many is timed by the enforcer itself: the first, and each that comes so many after one. */
const TIMED_OF = 16

/** From the answer of a timer to the answer of the check. */
const TURN_MS = 2

/** Any of them may wait for a processor, which is no time that the enforcer takes. */
const TRIES_MAX = 30

const limits = [{ capacity: 1_000_000 }]
/** Each in a domain of its name. */
const policies = STORE_FAILURE_BEHAVIOURS.map((behaviour) =>
  aPolicy({ domain: behaviour, onStoreFailure: behaviour, limits }),
)

let region: TestRegion
let enforcer: ServerProcess
let url = ''
let asked = 0
const agent = new Agent({ connections: 1 })

beforeAll(async () => {
  region = await startRegion(policies)
  const env = {
    PATH: process.env['PATH'],
    REGION: 'us-east-1',
    REDIS_URL: region.redis.url,
    REDIS_USERNAME: LOGINS.enforcer.username,
    REDIS_PASSWORD: LOGINS.enforcer.password.reveal(),
    ENFORCER_PORT: '0',
    ENFORCER_GRPC_PORT: '0',
  }
  const main = join(PACKAGE_ROOT, 'dist/services/enforcer/main.js')
  enforcer = await startServer(process.execPath, [main], '"msg":"listening"', { env })
  url = /"url":"([^"]+)"/.exec(enforcer.log())?.[1] ?? ''
  const status = async () => (await fetch(`${url}/readyz`)).status
  await vi.waitFor(async () => expect(await status()).toBe(200), 20_000)
})
afterAll(async () => {
  region?.redis.resume()
  await agent.close()
  await enforcer?.stop()
  await region?.stop()
})

/** Each of a tenant of its own, so that none is leased or was denied before. */
async function check(domain: string) {
  const descriptors = [{ entries: [{ key: 'tenant', value: `tenant-${++asked}` }] }]
  const reply = await request(`${url}/v1/check`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ domain, descriptors }),
    dispatcher: agent,
  })
  const { allowed, degraded } = (await reply.body.json()) as Record<string, unknown>
  return { status: reply.statusCode, allowed, degraded }
}

async function series(name: string, labels = ''): Promise<number> {
  const text = await (await fetch(`${url}/metrics`)).text()
  const line = text.split('\n').find((one) => one.startsWith(`${name}{`) && one.includes(labels))
  return Number(line?.split(' ').at(-1) ?? 0)
}

const timed = async () => ({
  count: await series('quotaplane_check_duration_seconds_count'),
  seconds: await series('quotaplane_check_duration_seconds_sum'),
})

/** Sends checks until Redis decides them and the next one is timed. */
async function untilNextIsTimed(): Promise<void> {
  await expect
    .poll(
      async () => {
        const { degraded } = await check('allow')
        return degraded === false && asked % TIMED_OF === 0
      },
      { interval: 0, timeout: 20_000 },
    )
    .toBe(true)
}

/** How long the enforcer took to answer the first of the checks that Redis leaves without an answer, ms. */
async function answeredAfterMs(): Promise<number> {
  await untilNextIsTimed()
  const before = await timed()
  region.redis.pause()
  const answers = []
  for (const behaviour of STORE_FAILURE_BEHAVIOURS) answers.push(await check(behaviour))
  region.redis.resume()
  const byBehaviour = STORE_FAILURE_BEHAVIOURS.map((behaviour) => ({
    status: 200,
    allowed: behaviour !== 'deny',
    degraded: true,
  }))
  expect(answers).toEqual(byBehaviour)
  const after = await timed()
  expect(after.count - before.count).toBe(1)
  return 1_000 * (after.seconds - before.seconds)
}

describe('while Redis hangs, by the deadline that is set where nobody sets one', () => {
  it('checks are answered as policies say once it was silent for two milliseconds (B094)', async () => {
    expect(CHECK_DEADLINE_MS).toBe(2)
    const tookMs: number[] = []
    const withinMs = STRETCH_MAX * CHECK_DEADLINE_MS + TURN_MS
    while (Math.min(...tookMs) > withinMs && tookMs.length < TRIES_MAX) {
      tookMs.push(await answeredAfterMs())
    }
    expect(Math.min(...tookMs), `${tookMs}`).toBeLessThanOrEqual(withinMs)
    // None was given up before its time: a timer may be early by less than a millisecond.
    expect(Math.min(...tookMs), `${tookMs}`).toBeGreaterThan(CHECK_DEADLINE_MS - 1)
    const marked = await series('quotaplane_degraded_decisions_total', 'reason="store_unavailable"')
    expect(marked).toBeGreaterThan(0)
  })
})
