import { execFileSync } from 'node:child_process'
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, it } from 'vitest'
import { adminEnv } from '../../../services/admin/config.ts'
import { findProgram } from '../../../services/cli/plane/programs.ts'
import { enforcerEnv } from '../../../services/enforcer/config.ts'
import { syncEnv } from '../../../services/sync/config.ts'
import { migrationEnv } from '../../../shared/postgres/settings.ts'
import { readEnv } from '../../../shared/runtime/env.ts'
import { contentOf } from '../../support/setting-files.ts'

/** Migrations are the command's, with the environment file of admin. */
const SCHEMAS = { enforcer: enforcerEnv, sync: syncEnv, admin: adminEnv, migrate: migrationEnv }
type Service = keyof typeof SCHEMAS
type Environment = Readonly<Record<string, string>>
const READERS: Readonly<Record<Service, (env: Environment) => unknown>> = {
  enforcer: (env) => readEnv(enforcerEnv, env),
  sync: (env) => readEnv(syncEnv, env),
  admin: (env) => readEnv(adminEnv, env),
  migrate: (env) => readEnv(migrationEnv, env),
}
const UNITS = Object.keys(SCHEMAS) as Service[]
const SERVICES = ['enforcer', 'sync', 'admin'] as const

/** Whose settings and secrets a unit has. */
const ownerOf = (unit: Service): Service => (unit === 'migrate' ? 'admin' : unit)
const URLS: Readonly<Record<string, string>> = {
  DATABASE_URL: 'postgresql://quotaplane_service@db/plane',
  DATABASE_MIGRATION_URL: 'postgresql://owner@db/plane',
}

/** A service above this is not what systemd calls protected: `systemd-analyze security`, 10 is nothing at all. */
const EXPOSURE_MAX = '20'

const analyze = findProgram('systemd-analyze', process.env)

const folder = mkdtempSync(join(tmpdir(), 'quotaplane-systemd-'))
afterAll(() => rmSync(folder, { recursive: true }))

const textOf = (service: Service): string =>
  readFileSync(`deploy/systemd/quotaplane-${service}.service`, 'utf8')

/** The values of each key of a section, in their order. */
function section(text: string, name: string): ReadonlyMap<string, string[]> {
  const [, lines = ''] = new RegExp(`^\\[${name}\\]\\n([^[]*)`, 'm').exec(text) ?? []
  const all = new Map<string, string[]>()
  for (const line of lines.split('\n').filter((one) => one !== '' && !one.startsWith('#'))) {
    const [, key = '', value = ''] = /^(\w+)=(.*)$/.exec(line) ?? []
    expect(key, line).not.toBe('')
    all.set(key, [...(all.get(key) ?? []), value])
  }
  return all
}

function settingsOf(service: Service): Record<string, string> {
  const lines = readFileSync(`deploy/systemd/${ownerOf(service)}.env`, 'utf8').split('\n')
  const pairs = lines.filter((line) => /^[A-Z]/.test(line)).map((line) => line.split(/=(.*)/s))
  return Object.fromEntries(pairs.map(([name = '', value = '']) => [name, value]))
}

describe('deploy/systemd', () => {
  it('is a unit and an environment for each service', () => {
    const files = SERVICES.map((service) => `${service}.env`)
    files.push('debug-token.conf', ...UNITS.map((unit) => `quotaplane-${unit}.service`))
    expect(readdirSync('deploy/systemd').sort()).toEqual(files.sort())
  })

  it.each(UNITS)('gives %s settings that it starts with, and secrets by credentials', (service) => {
    const unit = section(textOf(service), 'Service')
    const credentials = (unit.get('LoadCredential') ?? []).map((one) => one.split(':'))
    const settings = settingsOf(service)
    for (const assignment of unit.get('Environment') ?? []) {
      const [, name, credential] = /^(\w+)_FILE=%d\/(.+)$/.exec(assignment) ?? []
      if (name === undefined) continue
      expect(credentials).toContainEqual([
        credential,
        `/etc/quotaplane/${ownerOf(service)}/${credential}`,
      ])
      const path = join(folder, String(credential))
      writeFileSync(path, URLS[name] ?? contentOf(name))
      settings[`${name}_FILE`] = path
    }
    expect(credentials.length).toBe(
      Object.keys(settings).filter((one) => /_FILE$/.test(one)).length,
    )
    const schema = SCHEMAS[service]
    const read = [...Object.keys(schema.shape), ...Object.keys(SCHEMAS[ownerOf(service)].shape)]
    const named = Object.keys(settings).map((name) => name.replace(/_FILE$/, ''))
    expect(named.filter((name) => !read.includes(name))).toEqual([])
    expect(() => READERS[service](settings)).not.toThrow()
    expect(unit.get('EnvironmentFile')).toEqual([`/etc/quotaplane/${ownerOf(service)}.env`])
  })

  it('has a drop-in that gives enforcers a debug token by a credential', () => {
    const dropIn = section(readFileSync('deploy/systemd/debug-token.conf', 'utf8'), 'Service')
    const [credential = '', path] = dropIn.get('LoadCredential')?.[0]?.split(':') ?? []
    expect(path).toBe(`/etc/quotaplane/enforcer/${credential}`)
    expect(dropIn.get('Environment')).toEqual([`ENFORCER_DEBUG_TOKEN_FILE=%d/${credential}`])
    expect(Object.keys(SCHEMAS.enforcer.shape)).toContain('ENFORCER_DEBUG_TOKEN')
    expect(dropIn.size).toBe(2)
  })

  it.each(SERVICES)(
    'starts %s from what the build makes, and waits for it to shut down',
    (service) => {
      const unit = section(textOf(service), 'Service')
      const main = `dist/services/${service}/main.js`
      expect(unit.get('ExecStart')).toEqual([`/usr/bin/node /opt/quotaplane/${main}`])
      const given = settingsOf(service)['SHUTDOWN_DEADLINE_MS']
      const deadlineMs = SCHEMAS[service].shape.SHUTDOWN_DEADLINE_MS.parse(given)
      expect(Number(unit.get('TimeoutStopSec')?.[0]) * 1_000).toBeGreaterThan(deadlineMs)
      expect(unit.get('Restart')).toEqual(['always'])
    },
  )

  it('migrates before admins start, where the URL of the owner is, which no admin is told', () => {
    const order = section(textOf('admin'), 'Unit')
    for (const key of ['Wants', 'After']) {
      expect(order.get(key)?.join(' ').split(' ')).toContain('quotaplane-migrate.service')
    }
    const migrate = section(textOf('migrate'), 'Service')
    expect(migrate.get('Type')).toEqual(['oneshot'])
    const command = 'dist/services/cli/main.js admin migrate'
    expect(migrate.get('ExecStart')).toEqual([`/usr/bin/node /opt/quotaplane/${command}`])
    const file = section(textOf('migrate'), 'Unit').get('ConditionPathExists')?.[0]
    expect(migrate.get('LoadCredential')).toContain(`migration-url:${file}`)
    expect(textOf('admin')).not.toContain('migration-url')
  })

  it.each(UNITS)('leaves %s nothing that it does not need', (service) => {
    const unit = section(textOf(service), 'Service')
    expect(Object.fromEntries(unit)).toMatchObject({
      DynamicUser: ['yes'],
      NoNewPrivileges: ['yes'],
      CapabilityBoundingSet: [''],
      ProtectSystem: ['strict'],
      ProtectHome: ['yes'],
      PrivateDevices: ['yes'],
      SystemCallFilter: ['@system-service', '~@privileged @resources'],
    })
  })
})

const SKIPPED = analyze === null ? ', skipped since systemd is not installed here' : ''

describe.skipIf(analyze === null)(`deploy/systemd, by systemd-analyze${SKIPPED}`, () => {
  const ask = (...args: string[]): string =>
    execFileSync(analyze ?? '', args, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] })

  it.each(UNITS)('has for %s a unit that systemd takes, and calls protected', (service) => {
    // Whether the program is there is part of it.
    const here = textOf(service).replace('/usr/bin/node /opt/quotaplane/', `${process.execPath} /`)
    const path = join(folder, `quotaplane-${service}.service`)
    writeFileSync(path, here)
    ask('verify', '--man=no', path)
    const rated = ask('security', '--offline=yes', `--threshold=${EXPOSURE_MAX}`, path)
    expect(rated).toContain('Overall exposure level')
  })
})
