import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { Redis } from 'ioredis'
import { sql } from 'kysely'
import { connect, nkeyAuthenticator } from 'nats'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { PlaneDescription } from '../../services/cli/plane/topology.ts'
import { createDatabase } from '../../shared/postgres/client.ts'
import type { Tables } from '../../shared/postgres/tables.ts'
import { STATE_SUBJECTS, stateSubject } from '../../shared/protocol/subjects.ts'
import { finish, firstLine, isAlive, quotaplaneHere, spawnCli, temporaryFolder } from './support.ts'

/** The plane that is deployed, from the files that are deployed, without containers. */

const REGIONS = ['us-east-1', 'eu-west-1', 'ap-south-1']

let folder: string
let env: Readonly<Record<string, string>>
let remove: () => Promise<void> = async () => {}
let launcher: ReturnType<typeof spawnCli>
let plane: PlaneDescription

const keys = (file: string): string => readFileSync(join(folder, 'data/keys', file), 'utf8').trim()

async function start(): Promise<void> {
  const args = [
    'up',
    '--topology',
    'deploy/topology.yaml',
    '--data',
    join(folder, 'data'),
    '--json',
  ]
  launcher = spawnCli(args, env)
  plane = JSON.parse(await firstLine(launcher))
}

async function stop(): Promise<number | null> {
  const ended = finish(launcher)
  launcher.kill('SIGINT')
  return (await ended).exitCode
}

beforeAll(async () => {
  ;({ path: folder, env, remove } = await temporaryFolder())
  await start()
})
afterAll(async () => {
  if (launcher?.exitCode === null && launcher.signalCode === null) {
    const ended = once(launcher, 'exit')
    launcher.kill('SIGTERM')
    await ended
  }
  await remove()
})

const pids = (): number[] => [
  plane.admin.pid,
  ...plane.otherAdmins.map(({ pid }) => pid),
  plane.postgres.pid ?? 0,
  ...plane.regions.flatMap(({ redis, nats, enforcers, sync, standbys }) =>
    [redis, nats, ...enforcers, sync, ...standbys].map(({ pid }) => pid),
  ),
]

const check = async (region: string) => {
  const at = plane.regions.find((one) => one.region === region)?.enforcers
  const urls = at?.map(({ url }) => url) ?? []
  return await Promise.all(
    urls.map(async (url) => {
      const args = ['check', '--domain', 'api', 'tenant=acme', '--enforcer-url', url, '--json']
      const { exitCode, out } = await quotaplaneHere(args, { env })
      return exitCode === 0 && JSON.parse(out).allowed === true
    }),
  )
}

/** Who is connected, this question included. */
async function usersOfPostgres(): Promise<readonly string[]> {
  const db = createDatabase<Tables>({ url: plane.postgres.url, onIdleError: () => {} })
  const { rows } = await sql<{ usename: string }>`
    select distinct usename from pg_stat_activity
    where backend_type = 'client backend' order by usename`.execute(db)
  await db.destroy()
  return rows.map(({ usename }) => usename)
}

describe('quotaplane up --topology deploy/topology.yaml', () => {
  it('has the regions, enforcers, daemons and admins of the compose file, each a process', () => {
    expect(plane.regions.map(({ region }) => region)).toEqual(REGIONS)
    for (const { enforcers, standbys } of plane.regions) {
      expect([enforcers.length, standbys.length]).toEqual([2, 1])
    }
    expect(new Set(pids())).toHaveProperty('size', 3 + 3 * 6)
    expect(pids().filter(isAlive)).toHaveLength(3 + 3 * 6)
  })

  it.each(REGIONS)('decides checks in %s, by each of its enforcers', async (region) => {
    expect(await check(region)).toEqual([true, true])
  })

  it('has one daemon of a region lead, and the other wait', async () => {
    for (const { sync, standbys } of plane.regions) {
      const urls = [sync, ...standbys].map(({ url }) => `${url}/readyz`)
      const answers = await Promise.all(urls.map((url) => fetch(url)))
      expect(answers.map(({ status }) => status).sort()).toEqual([200, 503])
      const waiting = answers.find(({ status }) => status === 503)
      expect(await waiting?.json()).toMatchObject({
        waitingFor: expect.arrayContaining(['leadership']),
      })
    }
  })

  it('does not let a region publish as another, while what it says itself reaches all', async () => {
    const [us, eu] = plane.regions
    const open = (port: number | undefined, seed: string) =>
      connect({
        servers: `127.0.0.1:${port}`,
        authenticator: nkeyAuthenticator(new TextEncoder().encode(keys(seed))),
      })
    const listener = await open(eu?.nats.port, 'nats-admin.seed')
    const heard: string[] = []
    listener.subscribe(STATE_SUBJECTS, {
      callback: (_, { subject, data }) => {
        heard.push(`${subject} ${data.length === FORGED.length ? 'forged' : 'own'}`)
      },
    })
    await listener.flush()
    const region = await open(us?.nats.port, 'nats-us-east-1.seed')
    const refused: string[] = []
    void (async () => {
      for await (const { type, ...rest } of region.status()) {
        if (type === 'error') refused.push(JSON.stringify(rest))
      }
    })()
    region.publish(stateSubject('eu-west-1'), FORGED)
    region.publish(stateSubject('us-east-1'), FORGED)
    await region.flush()
    await expect.poll(() => refused.join()).toContain(stateSubject('eu-west-1'))
    await expect.poll(() => heard).toContain(`${stateSubject('us-east-1')} forged`)
    expect(heard).not.toContain(`${stateSubject('eu-west-1')} forged`)
    // The daemons' own records come from every region, also over the gateways.
    for (const name of REGIONS) {
      await expect.poll(() => heard, { timeout: 10_000 }).toContain(`${stateSubject(name)} own`)
    }
    await expect(open(eu?.nats.port, 'nats-us-east-1.seed')).rejects.toThrow(/auth/i)
    await Promise.all([region.close(), listener.close()])
  })

  it('runs Redis as its file says, and lets services do their work alone there', async () => {
    const port = plane.regions[0]?.redis.port ?? 0
    const as = (user: string) =>
      new Redis({ port, username: user, password: keys(`redis-us-east-1-${user}.password`) })
    const [operator, enforcer] = [as('operator'), as('enforcer')]
    const [, appendonly] = (await operator.config('GET', 'appendonly')) as string[]
    expect(appendonly).toBe('yes')
    await expect(enforcer.flushall()).rejects.toThrow('NOPERM')
    expect(String(await operator.acl('LIST'))).toContain('user default off')
    for (const client of [operator, enforcer]) client.disconnect()
  })

  it('has its admins in Postgres as a role that owns nothing, after each start', async () => {
    expect(await usersOfPostgres()).toEqual(['quotaplane', 'quotaplane_service'])
    const url = new URL(plane.postgres.url)
    url.username = 'quotaplane_service'
    const db = createDatabase<Tables>({ url: url.href, onIdleError: () => {} })
    await expect(sql`select 1`.execute(db)).rejects.toMatchObject({ cause: { code: '28P01' } })
    await db.destroy()
  })

  it('shows decisions of a region by the token of that region alone', async () => {
    const url = plane.regions[0]?.enforcers[0]?.url
    const ask = async (token: string): Promise<number> => {
      const headers = { authorization: `Bearer ${token}` }
      return (await fetch(`${url}/v1/debug/decisions`, { headers })).status
    }
    expect(await ask(keys('debug-us-east-1.token'))).toBe(200)
    expect(await ask(keys('debug-eu-west-1.token'))).toBe(401)
    const watch = ['debug', 'decisions', '--sample', '1%', '--region', 'us-east-1', '--for', '1s']
    expect(await quotaplaneHere(watch, { env })).toMatchObject({ exitCode: 0 })
  })

  it('stops every process on Ctrl-C, and finds its data again', async () => {
    const before = pids()
    const { token } = plane.admin
    const policies = async () => {
      const flags = ['--admin-url', plane.admin.url, '--token', token, '--json']
      return (await quotaplaneHere(['policy', 'list', ...flags], { env })).out
    }
    const found = await policies()
    expect(found).toContain('per-tenant')
    expect(await stop()).toBe(0)
    expect(before.filter(isAlive)).toEqual([])
    expect(await readdir(folder)).toEqual(['data'])
    await start()
    expect(plane.admin.token).toBe(token)
    expect(await policies()).toBe(found)
    expect(await usersOfPostgres()).toEqual(['quotaplane', 'quotaplane_service'])
    expect(await stop()).toBe(0)
  })
})

const FORGED = new TextEncoder().encode('no record of any version, and of a length that none has')
