import { spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { PlaneDescription } from '../../../services/cli/plane/topology.ts'
import { findLocalPlane, writeStateFile } from '../../../services/cli/state-file.ts'

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

  it('is ignored when it is damaged or no file', () => {
    const env = { XDG_RUNTIME_DIR: folder }
    const path = writeStateFile(env, plane(process.pid))
    writeFileSync(path, '{')
    expect(findLocalPlane(env)).toBeNull()
    expect(findLocalPlane({ XDG_RUNTIME_DIR: join(folder, 'gone') })).toBeNull()
  })
})
