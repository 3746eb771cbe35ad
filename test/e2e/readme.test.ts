import { type ChildProcess, spawn } from 'node:child_process'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { PlaneDescription } from '../../services/cli/plane/topology.ts'
import { PACKAGE_ROOT } from '../../shared/runtime/assets.ts'
import { type Finished, finish, firstLine, spawnCli, temporaryFolder } from './support.ts'

let readme = ''
let folder: Awaited<ReturnType<typeof temporaryFolder>>
let launcher: ChildProcess
let plane: PlaneDescription

beforeAll(async () => {
  readme = await readFile(join(PACKAGE_ROOT, 'README.md'), 'utf8')
  folder = await temporaryFolder()
  launcher = spawnCli(['up', '--json'], folder.env)
  plane = JSON.parse(await firstLine(launcher))
})
afterAll(async () => {
  launcher.kill('SIGINT')
  await finish(launcher)
  await folder.remove()
})

/** The shell blocks under a heading of the README. */
function blocksUnder(heading: string): string[] {
  const section = readme.split(/^## /m).find((part) => part.startsWith(heading)) ?? ''
  return [...section.matchAll(/```sh\n([\s\S]*?)```/g)].map((match) => match[1] ?? '')
}

/** Runs commands as a person would type them, in a folder of their own. */
async function type(commands: string): Promise<Finished> {
  const shell = spawn('bash', ['-e', '-o', 'pipefail', '-O', 'expand_aliases'], {
    cwd: folder.path,
    env: { ...process.env, ...folder.env },
  })
  return await finish(shell, commands)
}

/** The alias names the folder of the checkout, the port is the usual one unless it was taken. */
function onThisPlane(commands: string): string {
  const url = plane.regions[0]?.enforcers[0]?.url ?? ''
  return commands.replaceAll('$PWD', PACKAGE_ROOT).replaceAll('http://127.0.0.1:8080', url)
}

describe('the README', () => {
  it('begins with the two commands that a newcomer needs', () => {
    const [first = ''] = readme.match(/```sh\n[\s\S]*?```/) ?? []
    expect(readme.indexOf(first)).toBeLessThan(40)
    expect(first).toContain('npm ci && npm run demo')
    expect(first).toContain('npm ci && npm test')
  })

  it('names only files and npm scripts that exist', async () => {
    const scripts = Object.keys(
      JSON.parse(await readFile(join(PACKAGE_ROOT, 'package.json'), 'utf8')).scripts,
    )
    const named = [...readme.matchAll(/npm (?:run )?(demo|start|test)\b/g)].map((match) => match[1])
    expect(named.filter((script) => !scripts.includes(script ?? ''))).toEqual([])
    const traces = [...readme.matchAll(/--trace (services\S+)/g)].map((match) => match[1] ?? '')
    expect(traces.length).toBeGreaterThan(0)
    for (const path of traces) await readFile(join(PACKAGE_ROOT, path))
  })

  it('shows commands that work as they stand: change a limit, try a check', async () => {
    const [start = '', change = ''] = blocksUnder('Start a plane')
    const [tryIt = ''] = blocksUnder('Try a check')
    expect(start).toContain('npm start')
    const changed = await type(onThisPlane(change))
    expect(changed.exitCode, changed.err).toBe(0)
    expect(changed.out).toContain('is applied everywhere')
    for (const { region } of plane.regions) {
      const decided = `allowed in ${region}\\n.*\\n.*500 per 1,000 ms`
      expect(changed.out).toMatch(new RegExp(decided))
    }
    // The promise to a newcomer, beside the alias.
    expect(change.trim().split('\n')).toHaveLength(4)
    const [alias = ''] = change.split('\n')
    const tried = await type(onThisPlane(`${alias}\n${tryIt}`))
    expect(tried.exitCode, tried.err).toBe(0)
    expect(tried.out).toContain('"allowed":true')
    expect(tried.out).toContain('allowed in eu-west-1')
    expect(tried.out).toContain('api/per-tenant/per-second')
  })

  it('shows a policy that can be applied', async () => {
    const [policy = ''] = readme.match(/```yaml\n[\s\S]*?```/) ?? []
    const yaml = policy.replace(/```(yaml)?\n?/g, '')
    const alias = onThisPlane('alias quotaplane="node $PWD/dist/services/cli/main.js"')
    const applied = await type(`${alias}\nquotaplane policy apply -f - <<'END'\n${yaml}END\n`)
    expect(applied.exitCode, applied.err).toBe(0)
  })
})
