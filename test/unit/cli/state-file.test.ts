import { spawn, spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync, statSync, utimesSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { PlaneDescription } from '../../../services/cli/plane/topology.ts'
import { runProgram } from '../../../services/cli/program.ts'
import { findLocalPlane, writeStateFile } from '../../../services/cli/state-file.ts'
import { serve } from '../client/http-server.ts'
import { ioWith } from './fake-io.ts'

let folder = ''
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'quota-state-'))
})
afterEach(() => rmSync(folder, { recursive: true }))

function plane(pid: number, url = 'http://127.0.0.1:7070'): PlaneDescription {
  return {
    admin: { url, token: 'secret', pid: 1 },
    otherAdmins: [],
    postgres: { url: 'postgresql://', pid: 2 },
    regions: [
      {
        region: 'us-east-1',
        enforcers: [{ grpcPort: null, url: 'http://127.0.0.1:8080', pid: 3 }],
        redis: { port: 6379, pid: 4 },
        nats: { port: 4222, gatewayPort: 7222, pid: 5 },
        sync: { url: 'http://127.0.0.1:7080', pid: 6 },
        standbys: [],
      },
    ],
    pid,
  }
}

describe('the word of a local plane', () => {
  it('lets commands find a running plane, and only its owner read the token', () => {
    const env = { XDG_RUNTIME_DIR: folder }
    const path = writeStateFile(env, plane(process.pid))
    expect(findLocalPlane(env)).toEqual({
      pid: process.pid,
      url: 'http://127.0.0.1:7070',
      token: 'secret',
      regions: [{ region: 'us-east-1', enforcerUrl: 'http://127.0.0.1:8080' }],
    })
    expect(statSync(path).mode & 0o777).toBe(0o600)
  })

  it('is not believed of a plane whose process is gone', () => {
    const { pid } = spawnSync('true')
    writeStateFile({ XDG_RUNTIME_DIR: folder }, plane(pid))
    expect(findLocalPlane({ XDG_RUNTIME_DIR: folder })).toBeNull()
  })

  it('of several has commands say which they talk to, and each is reached by its URL with its own token', async () => {
    const other = await serve((_turn, res, req) => {
      const isOwn = req.headers.authorization === 'Bearer secret'
      res.statusCode = isOwn ? 200 : 401
      res.end(JSON.stringify({ actor: 'admin-token', scopes: [], domains: null }))
    })
    const sleeper = spawn('sleep', ['60'])
    const run = async (...args: readonly string[]) => {
      const io = ioWith({ env: { XDG_RUNTIME_DIR: folder, XDG_CONFIG_HOME: folder } })
      return { exitCode: await runProgram(args, io), ...io.written }
    }
    try {
      const first = writeStateFile({ XDG_RUNTIME_DIR: folder }, plane(sleeper.pid ?? 0))
      utimesSync(first, 1, 1)
      writeStateFile({ XDG_RUNTIME_DIR: folder }, plane(process.pid, other.url))
      const { exitCode, err } = await run('whoami')
      expect(exitCode).toBe(0)
      expect(err).toContain(`this is ${other.url}`)
      expect(err).toContain('--admin-url http://127.0.0.1:7070')
      const named = await run('whoami', '--admin-url', other.url)
      expect(named).toMatchObject({ exitCode: 0, err: '' })
    } finally {
      sleeper.kill()
      await other.close()
    }
  })

  it('is ignored when it is damaged or no file', () => {
    const env = { XDG_RUNTIME_DIR: folder }
    const path = writeStateFile(env, plane(process.pid))
    writeFileSync(path, '{')
    expect(findLocalPlane(env)).toBeNull()
    expect(findLocalPlane({ XDG_RUNTIME_DIR: join(folder, 'gone') })).toBeNull()
  })
})
