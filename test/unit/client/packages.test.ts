import { existsSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, expect, it } from 'vitest'

/** What an application loads with the client. Imports of types alone leave nothing to load. */
function packagesOf(
  path: string,
  seen = new Set<string>(),
  found = new Set<string>(),
): Set<string> {
  if (seen.has(path)) return found
  seen.add(path)
  expect(existsSync(path)).toBe(true)
  const text = readFileSync(path, 'utf8')
  for (const [, what = '', from = ''] of text.matchAll(
    /^(?:import|export) ([^'"]*?)from '([^']+)'/gms,
  )) {
    if (what.startsWith('type ')) continue
    if (from.startsWith('.')) packagesOf(join(dirname(path), from), seen, found)
    else if (!from.startsWith('node:')) found.add(from)
  }
  return found
}

describe('the client', () => {
  it('loads no package of the services, only what docs/client.md names', () => {
    const packages = [...packagesOf('client/mod.ts')].sort()
    expect(packages).toEqual(['fastify-plugin', 'undici'])
    const page = readFileSync('docs/client.md', 'utf8')
    const { dependencies } = JSON.parse(readFileSync('package.json', 'utf8'))
    for (const name of packages) expect(page).toContain(`${name}@${dependencies[name]}`)
  })
})
