import { readdirSync, readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { parse } from 'yaml'
import { adminEnv } from '../../../services/admin/config.ts'
import { enforcerEnv } from '../../../services/enforcer/config.ts'
import { syncEnv } from '../../../services/sync/config.ts'
import { migrationEnv } from '../../../shared/postgres/settings.ts'

/** What can be said of the charts without helm; test/integration/deploy/helm.test.ts renders them where it is there. */

const CHARTS = ['region', 'control']
const textOf = (chart: string, file: string): string =>
  readFileSync(`deploy/helm/${chart}/${file}`, 'utf8')
const values = (chart: string) => parse(textOf(chart, 'values.yaml'))

/** Every path of a value, `a.b.c`; what is empty or a list is one value. */
function pathsOf(value: unknown, before = ''): string[] {
  const isBranch = typeof value === 'object' && value !== null && !Array.isArray(value)
  const entries = isBranch ? Object.entries(value) : []
  if (entries.length === 0) return [before]
  return entries.flatMap(([name, part]) =>
    pathsOf(part, before === '' ? name : `${before}.${name}`),
  )
}

describe.each(CHARTS)('the chart %s', (chart) => {
  const templates = readdirSync(`deploy/helm/${chart}/templates`).map((file) =>
    textOf(chart, `templates/${file}`),
  )

  it('describes every value that it has in its schema', () => {
    const schema = JSON.parse(textOf(chart, 'values.schema.json'))
    for (const path of pathsOf(values(chart))) {
      let at = schema
      for (const name of path.split('.')) {
        const isFree = at.additionalProperties !== false
        at = at.properties?.[name] ?? (isFree ? {} : undefined)
        expect(at, path).toBeDefined()
      }
    }
  })

  it('sets only what a service reads', () => {
    const known = {
      ...enforcerEnv.shape,
      ...syncEnv.shape,
      ...adminEnv.shape,
      ...migrationEnv.shape,
    }
    const set = templates.flatMap((text) => [
      ...[...text.matchAll(/\{ name: ([A-Z][A-Z_]+),/g)].map(([, name = '']) => name),
      ...[...text.matchAll(/"setting" "([A-Z_]+)"/g)].map(([, name = '']) => name),
    ])
    expect(set.length).toBeGreaterThan(10)
    expect(set.filter((name) => !(name in known))).toEqual([])
  })

  it('has the version of the package', () => {
    const { version } = JSON.parse(readFileSync('package.json', 'utf8'))
    expect(parse(textOf(chart, 'Chart.yaml'))).toMatchObject({ version, appVersion: version })
  })

  it('shares its helpers with the other', () => {
    expect(textOf(chart, 'templates/_helpers.tpl')).toBe(textOf('region', 'templates/_helpers.tpl'))
  })
})

describe('the ports of the charts', () => {
  it('are the defaults of the services', () => {
    const { enforcer, sync } = values('region')
    const { admin } = values('control')
    expect(enforcer.port).toBe(enforcerEnv.shape.ENFORCER_PORT.parse(undefined))
    expect(enforcer.grpcPort).toBe(enforcerEnv.shape.ENFORCER_GRPC_PORT.parse(undefined))
    expect(sync.port).toBe(syncEnv.shape.SYNC_PORT.parse(undefined))
    expect(admin.port).toBe(adminEnv.shape.ADMIN_PORT.parse(undefined))
  })
})
