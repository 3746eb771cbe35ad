import { execFileSync } from 'node:child_process'
import { rm } from 'node:fs/promises'
import { connect } from 'node:net'
import { join } from 'node:path'
import { status } from '@grpc/grpc-js'
import { Agent, request } from 'undici'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { PACKAGE_ROOT } from '../../../shared/runtime/assets.ts'
import { LOGINS } from '../../support/redis-users.ts'
import { healthClient, officialClient } from '../../support/rls-client.ts'
import { type ServerProcess, startServer } from '../../support/server-process.ts'
import { aPolicy, startRegion, type TestRegion } from './region.ts'

/** Inside the package, so that the build finds its dependencies; its own, so that no other build is disturbed. */
const BUILD = join(PACKAGE_ROOT, 'node_modules', '.cache', `enforcer-test-${process.pid}`)

const CHECK = JSON.stringify({
  domain: 'api',
  descriptors: [{ entries: [{ key: 'tenant', value: 'acme' }] }],
})

const RLS_CALL = {
  domain: 'api',
  descriptors: [{ entries: [{ key: 'tenant', value: 'acme' }] }],
}

let region: TestRegion
let service: ServerProcess | undefined

beforeAll(() => {
  const tsc = join(PACKAGE_ROOT, 'node_modules', '.bin', 'tsc')
  execFileSync(tsc, ['-p', 'tsconfig.build.json', '--outDir', BUILD], { cwd: PACKAGE_ROOT })
}, 120_000)
afterAll(() => rm(BUILD, { recursive: true, force: true }))

beforeEach(async () => {
  region = await startRegion([aPolicy({ limits: [{ capacity: 1_000_000 }] })])
})
afterEach(async () => {
  await service?.stop('SIGKILL')
  await region.stop()
})

async function start(
  env: Record<string, string> = {},
  args: readonly string[] = [],
): Promise<{ url: string; grpcPort: number }> {
  service = await startServer(
    process.execPath,
    [join(BUILD, 'services', 'enforcer', 'main.js'), ...args],
    '"msg":"listening"',
    {
      env: {
        PATH: process.env['PATH'],
        REGION: 'us-east-1',
        REDIS_URL: region.redis.url,
        REDIS_USERNAME: LOGINS.enforcer.username,
        REDIS_PASSWORD: LOGINS.enforcer.password.reveal(),
        REDIS_DEADLINE_MS: '250',
        ENFORCER_PORT: '0',
        ENFORCER_GRPC_PORT: '0',
        ...env,
      },
    },
  )
  const url = /"url":"([^"]+)"/.exec(service.log())?.[1] ?? ''
  await expect
    .poll(async () => (await fetch(`${url}/readyz`)).status, { timeout: 10_000 })
    .toBe(200)
  return { url, grpcPort: Number(/"grpcPort":(\d+)/.exec(service.log())?.[1]) }
}

function exitCode(): Promise<number | null> {
  return new Promise((resolve) => service?.child.once('exit', resolve))
}

/** Checks over one lasting connection until told to close it, as a caller behind a load balancer does. */
async function checkUntilToldToLeave(url: string): Promise<{ checks: number; failed: string[] }> {
  const dispatcher = new Agent({ connections: 1, pipelining: 1 })
  const failed: string[] = []
  let checks = 0
  for (let isLeaving = false; !isLeaving; checks++) {
    const reply = await request(`${url}/v1/check`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: CHECK,
      dispatcher,
    })
    const body = await reply.body.text()
    if (reply.statusCode !== 200 || !body.includes('"allowed":true')) failed.push(body)
    isLeaving = reply.headers['connection'] === 'close'
  }
  await dispatcher.close()
  return { checks, failed }
}

describe('the enforcer process', () => {
  it('answers every check of a load while it shuts down, and exits with 0 (B052)', async () => {
    const { url } = await start({ DRAIN_DELAY_MS: '300' })
    const load = Array.from({ length: 16 }, () => checkUntilToldToLeave(url))
    const allowed = async (): Promise<number> => {
      const metrics = await (await fetch(`${url}/metrics`)).text()
      return Number(/outcome="allowed"[^}]*} (\d+)/.exec(metrics)?.[1])
    }
    await expect.poll(allowed, { timeout: 20_000 }).toBeGreaterThan(100)
    const exited = exitCode()
    service?.child.kill('SIGTERM')
    await expect
      .poll(async () => (await fetch(`${url}/readyz`)).status, { timeout: 10_000 })
      .toBe(503)
    for (const caller of await Promise.all(load)) {
      expect(caller.failed).toEqual([])
      expect(caller.checks).toBeGreaterThan(1)
    }
    expect(await exited).toBe(0)
  })

  it('says first that it leaves, finishes what is under way over HTTP and gRPC, and refuses the rest cleanly (B052)', async () => {
    const { url, grpcPort } = await start({ DRAIN_DELAY_MS: '300', REDIS_DEADLINE_MS: '8000' })
    const headers = { 'content-type': 'application/json' }
    const ask = async (): Promise<string> => {
      const reply = await fetch(`${url}/v1/check`, { method: 'POST', headers, body: CHECK })
      const answer: { allowed?: boolean; degraded?: boolean } = JSON.parse(await reply.text())
      const { allowed, degraded } = answer
      return `${reply.status} allowed ${allowed} degraded ${degraded}`
    }
    const caller = officialClient(grpcPort)
    await caller.call(RLS_CALL)
    region.redis.pause()
    const overHttp = Array.from({ length: 25 }, ask)
    const overGrpc = Array.from({ length: 25 }, () => caller.call(RLS_CALL))
    const metrics = async (): Promise<string> => await (await fetch(`${url}/metrics`)).text()
    await expect.poll(metrics, { timeout: 10_000 }).toMatch(/checks_in_flight\{[^}]*\} 50/)
    const exited = exitCode()
    let isGone = false
    void exited.then(() => {
      isGone = true
    })
    service?.child.kill('SIGTERM')
    await expect
      .poll(async () => (await fetch(`${url}/readyz`)).status, { timeout: 10_000, interval: 10 })
      .toBe(503)
    // Not ready, and everything is still under way.
    expect(await metrics()).toMatch(/checks_in_flight\{[^}]*\} 50/)
    region.redis.resume()
    const allowed = '200 allowed true degraded false'
    expect(new Set(await Promise.all(overHttp))).toEqual(new Set([allowed]))
    for (const answer of await Promise.all(overGrpc)) expect(answer.overall_code).toBe('OK')
    const later = new Set<string>()
    while (!isGone) {
      later.add(await ask().catch((err: Error) => String(Reflect.get(err.cause ?? {}, 'code'))))
    }
    expect(await exited).toBe(0)
    later.add(await ask().catch((err: Error) => String(Reflect.get(err.cause ?? {}, 'code'))))
    const clean = [allowed, 'ECONNREFUSED', 'ECONNRESET', 'UND_ERR_SOCKET']
    expect([...later].filter((outcome) => !clean.includes(outcome))).toEqual([])
    expect(later).toContain('ECONNREFUSED')
    await expect(caller.call(RLS_CALL)).rejects.toMatchObject({ code: status.UNAVAILABLE })
    caller.close()
  })

  it('exits with 0 within its deadline while Redis hangs and checks wait for it', async () => {
    const { url } = await start({ SHUTDOWN_DEADLINE_MS: '2000' })
    region.redis.pause()
    const waiting = Array.from({ length: 20 }, () =>
      fetch(`${url}/v1/check`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: CHECK,
      }).then((reply) => reply.json()),
    )
    const exited = exitCode()
    const stoppedMs = performance.now()
    service?.child.kill('SIGTERM')
    const answers = await Promise.allSettled(waiting)
    expect(await exited).toBe(0)
    expect(performance.now() - stoppedMs).toBeLessThan(2_000)
    // A connection that the kernel had not handed over yet is refused; nobody gets a broken answer.
    for (const answer of answers) {
      if (answer.status === 'fulfilled') expect(answer.value).toMatchObject({ degraded: true })
    }
    region.redis.resume()
  })

  it('is not held up in shutting down by a caller that stopped half-way', async () => {
    const { url } = await start({ SHUTDOWN_DEADLINE_MS: '5000', REDIS_DEADLINE_MS: '100' })
    const half = connect(Number(new URL(url).port), '127.0.0.1')
    half.on('error', () => {})
    await new Promise<void>((resolve) => {
      half.write('POST /v1/check HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n\r\n{"domain"', () =>
        resolve(),
      )
    })
    await fetch(`${url}/livez`)
    const exited = exitCode()
    service?.child.kill('SIGTERM')
    expect(await exited).toBe(0)
    half.destroy()
  })

  it('finishes gRPC calls under way, whoever else keeps a connection, and exits with 0 (B055)', async () => {
    const { url, grpcPort } = await start({ DRAIN_DELAY_MS: '100', REDIS_DEADLINE_MS: '1000' })
    const idle = [1, 2, 3].map(() => officialClient(grpcPort))
    await Promise.all(idle.map((client) => client.call(RLS_CALL)))
    const watch = healthClient(grpcPort)
    const { told } = watch.watch('')
    await expect.poll(() => told).toEqual(['SERVING'])
    // A peer that stopped without a word after it had opened its session.
    const silent = connect(grpcPort, '127.0.0.1')
    silent.on('error', () => {})
    silent.write('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n')
    silent.write(Buffer.from([0, 0, 0, 4, 0, 0, 0, 0, 0]))
    await new Promise((resolve) => silent.once('data', resolve))
    silent.pause()

    const caller = officialClient(grpcPort)
    await caller.call(RLS_CALL)
    region.redis.pause()
    const underWay = Array.from({ length: 50 }, () => caller.call(RLS_CALL))
    await expect
      .poll(async () =>
        /checks_in_flight\{[^}]*\} 50/.test(await (await fetch(`${url}/metrics`)).text()),
      )
      .toBe(true)
    const exited = exitCode()
    service?.child.kill('SIGTERM')
    await expect.poll(() => told).toEqual(['SERVING', 'NOT_SERVING'])
    for (const answer of await Promise.all(underWay)) expect(answer.overall_code).toBe('OK')
    expect(await exited).toBe(0)
    await expect(caller.call(RLS_CALL)).rejects.toMatchObject({ code: status.UNAVAILABLE })
    for (const client of [...idle, watch, caller]) client.close()
    silent.destroy()
    region.redis.resume()
  })

  it('runs as several processes that share its ports, replaces one that ends, and stops them all', {
    timeout: 90_000,
  }, async () => {
    const { url } = await start({}, ['--workers', '2'])
    const pids = (): number[] =>
      [...(service?.log() ?? '').matchAll(/"pid":(\d+)[^\n]*"msg":"listening"/g)].map(([, pid]) =>
        Number(pid),
      )
    const workersSeen = async (): Promise<Set<string | undefined>> => {
      const text = await (await fetch(`${url}/metrics`)).text()
      const series = text.matchAll(/quotaplane_policy_version\{[^}]*worker="(\d+)"/g)
      return new Set([...series].map(([, worker]) => worker))
    }
    await expect.poll(workersSeen, { timeout: 20_000 }).toEqual(new Set(['1', '2']))
    // While another listens, the port that was chosen for them stays theirs.
    await expect.poll(() => pids().length, { timeout: 20_000 }).toBe(2)
    const [first] = pids()
    if (first === undefined) throw new Error('a worker says its process id')
    process.kill(first, 'SIGKILL')
    await expect.poll(() => pids().length, { timeout: 20_000 }).toBe(3)
    await expect.poll(workersSeen, { timeout: 20_000 }).toEqual(new Set(['1', '2']))
    const check = async (): Promise<unknown> => {
      const headers = { 'content-type': 'application/json' }
      const reply = await fetch(`${url}/v1/check`, { method: 'POST', headers, body: CHECK })
      return await reply.json()
    }
    await expect.poll(check, { timeout: 20_000 }).toMatchObject({ allowed: true })
    const exited = exitCode()
    service?.child.kill('SIGTERM')
    expect(await exited).toBe(0)
    for (const pid of pids()) expect(() => process.kill(pid, 0)).toThrow()
  })

  it('starts while Redis is away, alive and not ready, and exits with 0 on a signal', async () => {
    service = await startServer(
      process.execPath,
      [join(BUILD, 'services', 'enforcer', 'main.js')],
      '"msg":"listening"',
      {
        env: {
          PATH: process.env['PATH'],
          REGION: 'us-east-1',
          REDIS_URL: '/nonexistent/redis.sock',
          ENFORCER_PORT: '0',
          ENFORCER_GRPC_PORT: '0',
        },
      },
    )
    const url = /"url":"([^"]+)"/.exec(service.log())?.[1] ?? ''
    expect((await fetch(`${url}/livez`)).status).toBe(200)
    expect((await fetch(`${url}/readyz`)).status).toBe(503)
    const check = await fetch(`${url}/v1/check`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: CHECK,
    })
    expect(check.status).toBe(503)
    expect(await check.json()).toMatchObject({ code: 'QUOTA_STORE_UNAVAILABLE' })
    const exited = exitCode()
    service.child.kill('SIGINT')
    expect(await exited).toBe(0)
  })

  it('says every wrong setting by name and exits with 1', async () => {
    const failed = startServer(
      process.execPath,
      [join(BUILD, 'services', 'enforcer', 'main.js')],
      'listening',
      { env: { PATH: process.env['PATH'], ENFORCER_PORT: 'http', REDIS_URL: 'http://x' } },
    )
    await expect(failed).rejects.toThrow(
      /exited with 1[\s\S]*ENFORCER_PORT[\s\S]*REGION[\s\S]*REDIS_URL/,
    )
  })
})
