import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { z } from 'zod'
import { freePorts } from '../support/free-ports.ts'
import { type NatsServer, startNats } from '../support/nats-server.ts'
import { type PostgresServer, startPostgres } from '../support/postgres-server.ts'

/** Admin as it is deployed: the built program, real sockets, signals, and its servers away and back. */
const TOKEN = 'token-of-the-e2e-test'

let postgres: PostgresServer
let nats: NatsServer
const running: AdminProcess[] = []

beforeAll(async () => {
  ;[postgres, nats] = await Promise.all([startPostgres(), startNats()])
})
afterEach(async () => {
  for (const admin of running.splice(0))
    if (admin.child.exitCode === null) await admin.end('SIGKILL')
})
afterAll(async () => await Promise.all([postgres.stop(), nats.stop()]))

interface AdminProcess {
  readonly child: ChildProcess
  readonly url: string
  log(): string
  end(signal: NodeJS.Signals): Promise<number | null>
}

async function startAdmin(changes: Record<string, string> = {}): Promise<AdminProcess> {
  const child = spawn(process.execPath, ['dist/services/admin/main.js'], {
    env: {
      PATH: process.env['PATH'],
      DATABASE_URL: postgres.urlOf('postgres'),
      NATS_URL: nats.url,
      QUOTAPLANE_ADMIN_TOKEN: TOKEN,
      ADMIN_HOST: '127.0.0.1',
      ADMIN_PORT: '0',
      ...changes,
    },
    stdio: ['ignore', 'ignore', 'pipe'],
  })
  let log = ''
  const exited = once(child, 'exit')
  const url = await new Promise<string>((resolve, reject) => {
    void exited.then(([code]) => reject(new Error(`admin exited with ${code}\n${log}`)))
    createInterface(child.stderr).on('line', (line) => {
      log += `${line}\n`
      const url = line.startsWith('{') ? JSON.parse(line).url : undefined
      if (url !== undefined) resolve(url)
    })
  })
  const admin: AdminProcess = {
    child,
    url,
    log: () => log,
    async end(signal) {
      child.kill(signal)
      const [code] = await exited
      return code
    },
  }
  running.push(admin)
  return admin
}

const statusOf = async (admin: AdminProcess, path: string): Promise<number> =>
  (await fetch(`${admin.url}${path}`, { headers: { authorization: `Bearer ${TOKEN}` } })).status

const ready = (admin: AdminProcess, status = 200) =>
  expect.poll(() => statusOf(admin, '/readyz'), { timeout: 20_000 }).toBe(status)

const readiness = z.object({ waitingFor: z.array(z.string()) })

async function waitingFor(admin: AdminProcess): Promise<readonly string[]> {
  const response = await fetch(`${admin.url}/readyz?verbose`)
  return readiness.parse(await response.json()).waitingFor
}

describe('admin', () => {
  it('becomes ready, serves, and ends with 0 on SIGTERM', async () => {
    const admin = await startAdmin()
    await ready(admin)
    const registered = await fetch(`${admin.url}/v1/regions/us-east-1`, {
      method: 'PUT',
      headers: { authorization: `Bearer ${TOKEN}` },
    })
    expect(registered.status).toBe(201)
    expect(await admin.end('SIGTERM')).toBe(0)
    expect(admin.log()).not.toContain(TOKEN)
  })

  it('survives a restart of Postgres: not ready and 503 meanwhile, then as before (B133)', async () => {
    const admin = await startAdmin()
    await ready(admin)
    await postgres.halt()
    await ready(admin, 503)
    expect(await waitingFor(admin)).toEqual(['postgres'])
    expect(await statusOf(admin, '/v1/policies')).toBe(503)
    expect(await statusOf(admin, '/v1/shares')).toBe(200)
    await postgres.start()
    await ready(admin)
    expect(await statusOf(admin, '/v1/policies')).toBe(200)
    expect(admin.child.exitCode).toBeNull()
  })

  it('starts while NATS is away, is ready and says what it waits for, and picks NATS up', async () => {
    await nats.halt()
    const admin = await startAdmin()
    await ready(admin)
    expect(await waitingFor(admin)).toEqual(['nats'])
    await nats.start()
    await expect.poll(() => waitingFor(admin), { timeout: 20_000 }).toEqual([])
  })

  it('starts while Postgres is away, and prepares the schema once it is there', async () => {
    await postgres.halt()
    const admin = await startAdmin()
    expect(await statusOf(admin, '/livez')).toBe(200)
    expect(await statusOf(admin, '/readyz')).toBe(503)
    expect(await statusOf(admin, '/v1/policies')).toBe(503)
    await postgres.start()
    await ready(admin)
  })

  it('ends with 0 on SIGTERM while both are away', async () => {
    const [port = 0] = await freePorts(1)
    const admin = await startAdmin({
      DATABASE_URL: `postgresql://quota@127.0.0.1:${port}/none`,
      NATS_URL: `nats://127.0.0.1:${port}`,
    })
    expect(await admin.end('SIGTERM')).toBe(0)
  })

  it('names every setting that is wrong, none by its value, and exits with 1', async () => {
    const start = startAdmin({ ADMIN_PORT: 'seventy', DATABASE_URL: 'mysql://user:hidden@host/db' })
    const failure = await start.then(
      () => '',
      (err: Error) => err.message,
    )
    expect(failure).toContain('admin exited with 1')
    expect(failure).toContain('ADMIN_PORT')
    expect(failure).toContain('DATABASE_URL')
    expect(failure).not.toContain('hidden')
  })
})
