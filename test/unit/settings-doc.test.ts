import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { z } from 'zod'
import { adminEnv } from '../../services/admin/config.ts'
import { enforcerEnv } from '../../services/enforcer/config.ts'
import { syncEnv } from '../../services/sync/config.ts'
import { SETTING_NAMES } from '../../shared/runtime/setting-names.ts'
import { tracingEnv } from '../../shared/runtime/tracing/settings.ts'

const schemas = {
  enforcer: enforcerEnv.shape,
  sync: syncEnv.shape,
  admin: adminEnv.shape,
}

describe.each(Object.entries(schemas))('docs/settings.md, %s', (service, schema) => {
  it('names every variable that the service reads, with its default, and no other', () => {
    const ofEach = readIn(tracingEnv)
    const read = readIn(schema)
    expect(read.filter((line) => ofEach.includes(line))).toEqual(ofEach)
    const own = read.filter((line) => !ofEach.includes(line))
    expect(documented(`dist/services/${service}/main.js`)).toEqual(own)
  })
})

describe('docs/settings.md, traces', () => {
  it('names every variable of tracing, with its default, and no other', () => {
    expect(documented('\n## Traces')).toEqual(readIn(tracingEnv))
  })
})

describe('the names by which a misspelt setting is known', () => {
  it('are those that the services read, and no others', () => {
    const traces = Object.keys(tracingEnv)
    const read = Object.values(schemas).flatMap((schema) => Object.keys(schema))
    const own = new Set(read.filter((name) => !traces.includes(name)))
    expect([...SETTING_NAMES].sort()).toEqual([...own].sort())
  })
})

function readIn(shape: Readonly<Record<string, z.ZodType>>): string[] {
  return Object.entries(shape).map(([name, field]) => {
    const given = z.safeParse(field, undefined)
    if (!given.success) return `${name} required`
    return `${name} ${given.data === undefined ? 'none' : `\`${given.data}\``}`
  })
}

function documented(heading: string): string[] {
  const [, after = ''] = readFileSync('docs/settings.md', 'utf8').split(heading)
  const [section = ''] = after.split('\n## ')
  return [...section.matchAll(/^\| `([A-Z_]+)` \| ([^|]+) \|/gm)].map(
    ([, name, value]) => `${name} ${value}`,
  )
}
