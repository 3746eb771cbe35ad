import { mkdtemp, readdir, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { PlaneDescription } from '../../services/cli/plane/topology.ts'
import { holdsInATry } from '../support/tries.ts'
import {
  finish,
  firstLine,
  isAlive,
  quotaplane,
  quotaplaneHere,
  REGIONS,
  spawnCli,
  temporaryFolder,
} from './support.ts'

let folder = ''
let env: Readonly<Record<string, string>> = {}
let remove = async (): Promise<void> => {}
beforeAll(async () => {
  ;({ path: folder, env, remove } = await temporaryFolder())
})
afterAll(() => remove())

const POLICY = `
domain: api
name: per-tenant
match: [{ key: tenant }]
limits:
  - name: per-hour
    algorithm: fixed_window
    capacity: 3
    windowMs: 3600000
    split: { us-east-1: 34, eu-west-1: 66 }
`

function pidsOf(plane: PlaneDescription): number[] {
  return [
    plane.pid,
    plane.admin.pid,
    plane.postgres.pid ?? 0,
    ...plane.regions.flatMap(({ enforcers, redis, nats, sync }) => [
      ...enforcers.map(({ pid }) => pid),
      redis.pid,
      nats.pid,
      sync.pid,
    ]),
  ]
}

/** Processes that still run, and files that are still there. */
async function leftOver(pids: readonly number[]): Promise<{ pids: number[]; files: string[] }> {
  return { pids: pids.filter(isAlive), files: await readdir(folder) }
}

const NOTHING = { pids: [], files: [] }

describe('quotaplane up', () => {
  it('brings up a plane that other programs can drive, and leaves nothing', async () => {
    const launcher = spawnCli(['up', '--json'], env)
    const plane: PlaneDescription = JSON.parse(await firstLine(launcher))
    const pids = pidsOf(plane)
    try {
      expect(plane.regions.map(({ region }) => region)).toEqual(REGIONS)
      expect(plane.pid).toBe(launcher.pid)
      expect(pids.filter((pid) => !isAlive(pid))).toEqual([])
      await usesThePlane(plane)
    } finally {
      launcher.kill('SIGINT')
    }
    const { exitCode, err } = await finish(launcher)
    expect(exitCode, err).toBe(0)
    expect(await leftOver(pids)).toEqual(NOTHING)
  })

  it('leaves nothing when it is killed', async () => {
    const launcher = spawnCli(['up', '--json', '--regions', 'us-east-1'], env)
    const plane: PlaneDescription = JSON.parse(await firstLine(launcher))
    launcher.kill('SIGKILL')
    await expect.poll(() => leftOver(pidsOf(plane)), { timeout: 60_000 }).toEqual(NOTHING)
  })

  it('leaves nothing when a part does not start, and says which part and why', async () => {
    const bin = await mkdtemp(join(tmpdir(), 'quota-e2e-bin-'))
    const broken = '#!/bin/sh\necho out of luck\nexit 3\n'
    await writeFile(join(bin, 'nats-server'), broken, { mode: 0o755 })
    const path = { PATH: `${bin}:${process.env['PATH']}` }
    const { exitCode, err } = await quotaplane(['up'], { env: { ...env, ...path } })
    await rm(bin, { recursive: true })
    expect(exitCode).toBe(1)
    expect(err).toMatch(/nats of \S+ ended with exit code 3; the end of its log:\n {2}out of luck/)
    expect(await leftOver([])).toEqual(NOTHING)
  })

  it('leaves nothing when Ctrl-C comes before it is up', async () => {
    const launcher = spawnCli(['up'], env)
    const started = new Promise((resolve) => launcher.stderr?.once('data', resolve))
    await started
    launcher.kill('SIGINT')
    const { exitCode } = await finish(launcher)
    expect(exitCode).not.toBe(0)
    expect(await leftOver([])).toEqual(NOTHING)
  })
})

/** What an operator does first, with no flag but what to do. */
async function usesThePlane(plane: PlaneDescription): Promise<void> {
  const check = ['check', '--domain', 'api', 'tenant=acme', '--json', '--region']
  const spawned = await quotaplane([...check, REGIONS[0]], { env })
  const here = await quotaplaneHere([...check, REGIONS[1]], { env })
  for (const [region, { exitCode, out, err }] of [
    [REGIONS[0], spawned],
    [REGIONS[1], here],
  ] as const) {
    expect(exitCode, err).toBe(0)
    const answer = JSON.parse(out)
    expect(answer).toMatchObject({ allowed: true, region, degraded: false })
    expect(answer.decisions[0]).toMatchObject({ policy: 'api/per-tenant', limit: 10_000 })
  }
  await changesTheLimit(plane)
  await seesTheRollout(plane)
  await actsInAnEmergency()
  await seesThePlane()
  const refused = await quotaplaneHere(['policy', 'list', '--token', 'wrong'], { env })
  expect(refused.exitCode).toBe(1)
  expect(refused.err).toContain('give --token or set QUOTAPLANE_TOKEN')
}

async function seesThePlane(): Promise<void> {
  const list = await quotaplaneHere(['policy', 'list', '--json'], { env })
  expect(JSON.parse(list.out).policies, list.err).toHaveLength(1)
  const regions = await quotaplaneHere(['region', 'list'], { env })
  for (const region of REGIONS)
    expect(regions.out).toMatch(new RegExp(`^${region} +reporting`, 'm'))
  for (const command of ['shares', 'usage']) {
    const view = await quotaplaneHere([command, '--json'], { env })
    expect(JSON.parse(view.out).limits, view.err).toHaveLength(1)
    expect((await quotaplaneHere([command], { env })).out).toContain('api/per-tenant')
  }
}

/** The newest revision is applied by each enforcer of each region, and the exit code says so. */
async function seesTheRollout(plane: PlaneDescription): Promise<void> {
  const args = ['rollout', 'status', '--watch', '--timeout', '20']
  const rollout = await quotaplaneHere(args, { env })
  expect(rollout.exitCode, rollout.out + rollout.err).toBe(0)
  expect(rollout.out).toContain('is applied everywhere')
  for (const { region, enforcers } of plane.regions) {
    const port = new URL(enforcers[0]?.url ?? '').port
    expect(rollout.out).toMatch(new RegExp(`^${region} +applied`, 'm'))
    expect(rollout.out).toMatch(new RegExp(`:${port} +applied`, 'm'))
  }
  const none = await quotaplaneHere(['rollout', 'status', '999999'], { env })
  expect([none.exitCode, none.err]).toEqual([2, expect.stringContaining('no revision 999999')])
}

/** A tenant is blocked in every region by one command, and let through again by another. */
async function actsInAnEmergency(): Promise<void> {
  const mallory = ['check', '--domain', 'api', '--cost', '0', 'tenant=mallory', '--all-regions']
  const applied = async (): Promise<void> => {
    const args = ['rollout', 'status', '--watch', '--timeout', '20']
    const { exitCode, out, err } = await quotaplaneHere(args, { env })
    expect(exitCode, out + err).toBe(0)
  }
  const why = ['--reason', 'schürft seit 02:40']
  const block = ['block', 'api/per-tenant', 'mallory', '--for', '1h', ...why, '-o', 'name']
  const blocked = await quotaplaneHere(block, { env })
  expect(blocked.exitCode, blocked.err).toBe(0)
  await applied()
  const denied = await quotaplaneHere(mallory, { env })
  expect(denied.exitCode, denied.err).toBe(3)
  for (const region of REGIONS) expect(denied.out).toContain(`denied in ${region}`)
  expect(denied.out).toContain('deny all')
  const list = await quotaplaneHere(['emergency', 'list'], { env })
  expect(list.out).toMatch(/block +api\/per-tenant +mallory +(59m \d+s|1h) +admin-token +schürft/)
  const shown = await quotaplaneHere(['policy', 'get', 'api/per-tenant'], { env })
  expect(shown.err).toContain('block mallory (admin-token: schürft seit 02:40)')
  const end = ['emergency', 'end', blocked.out.trim(), ...why]
  expect(await quotaplaneHere(end, { env })).toMatchObject({ exitCode: 0 })
  await applied()
  expect((await quotaplaneHere(mallory, { env })).exitCode).toBe(0)
  const nobody = await quotaplaneHere(['emergency', 'end', '999', ...why], { env })
  expect([nobody.exitCode, nobody.err]).toEqual([1, expect.stringContaining('no emergency action')])
}

/** A change by the CLI is enforced in both regions within two seconds. */
async function changesTheLimit(plane: PlaneDescription): Promise<void> {
  const apply = ['policy', 'apply', '-f', '-']
  const untilEnforced = async (capacity: number): Promise<void> => {
    for (const { enforcers } of plane.regions) {
      await expect
        .poll(() => capacityAt(enforcers[0]?.url ?? ''), { timeout: 20_000, interval: 20 })
        .toBe(capacity)
    }
  }
  const enforcedAfterMs = async (attempt: number): Promise<number> => {
    if (attempt > 1) {
      const other = POLICY.replace('capacity: 3', 'capacity: 30')
      expect(await quotaplaneHere(apply, { env, input: other })).toMatchObject({ exitCode: 0 })
      await untilEnforced(30)
    }
    const applied = await quotaplane([...apply, '--json'], { env, input: POLICY })
    const appliedAtMs = performance.now()
    expect(applied.exitCode, applied.err).toBe(0)
    expect(JSON.parse(applied.out).applied[0]).toMatchObject({ result: 'updated' })
    await untilEnforced(3)
    return performance.now() - appliedAtMs
  }
  await holdsInATry(enforcedAfterMs, { once: (ms) => expect(ms).toBeLessThan(2_000) })
  const again = await quotaplaneHere(apply, { env, input: POLICY })
  expect(again.out).toMatch(/^api\/per-tenant unchanged/)
  const dear = ['check', '--domain', 'api', '--cost', '4', 'tenant=b']
  expect((await quotaplaneHere(dear, { env })).exitCode).toBe(3)
  const got = await quotaplaneHere(['policy', 'get', 'api/per-tenant'], { env })
  const back = await quotaplaneHere(apply, { env, input: got.out })
  expect(back.out).toMatch(/^api\/per-tenant unchanged/)
  const unknown = POLICY.replaceAll('eu-west-1', 'mars-1')
  const refused = await quotaplaneHere(apply, { env, input: unknown })
  expect(refused.exitCode).toBe(1)
  expect(refused.err).toMatch(
    /standard input:10: limits\[0\]\.split\.mars-1: mars-1 is not a registered region/,
  )
}

/** The capacity by which an enforcer decides the example's checks; reads without spending. */
async function capacityAt(url: string): Promise<number | undefined> {
  const descriptors = [{ entries: [{ key: 'tenant', value: 'b' }] }]
  const response = await fetch(`${url}/v1/check`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ domain: 'api', descriptors, cost: 0 }),
  })
  return JSON.parse(await response.text()).decisions[0]?.limit
}
