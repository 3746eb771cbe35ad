import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { z } from 'zod'
import { adminEnv } from '../../services/admin/config.ts'
import { enforcerEnv } from '../../services/enforcer/config.ts'
import { syncEnv } from '../../services/sync/config.ts'

const schemas = { enforcer: enforcerEnv, sync: syncEnv, admin: adminEnv }

describe.each(Object.entries(schemas))('docs/settings.md, %s', (service, schema) => {
  it('names every variable that the service reads, with its default, and no other', () => {
    const read = Object.entries(schema.shape).map(([name, field]) => {
      const given = z.safeParse(field, undefined)
      if (!given.success) return `${name} required`
      return `${name} ${given.data === undefined ? 'none' : `\`${given.data}\``}`
    })
    expect(documented(service)).toEqual(read)
  })
})

function documented(service: string): string[] {
  const [, after = ''] = readFileSync('docs/settings.md', 'utf8').split(
    `dist/services/${service}/main.js`,
  )
  const [section = ''] = after.split('\n## ')
  return [...section.matchAll(/^\| `([A-Z_]+)` \| ([^|]+) \|/gm)].map(
    ([, name, value]) => `${name} ${value}`,
  )
}
