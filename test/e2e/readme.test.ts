import { type ChildProcess, spawn } from 'node:child_process'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { PlaneDescription } from '../../services/cli/plane/topology.ts'
import { PACKAGE_ROOT } from '../../shared/runtime/assets.ts'
import { type Finished, finish, firstLine, spawnCli, temporaryFolder } from './support.ts'

let readme = ''
let running = ''
let folder: Awaited<ReturnType<typeof temporaryFolder>>
let launcher: ChildProcess
let plane: PlaneDescription

beforeAll(async () => {
  readme = await readFile(join(PACKAGE_ROOT, 'README.md'), 'utf8')
  running = await readFile(join(PACKAGE_ROOT, 'docs/running.md'), 'utf8')
  folder = await temporaryFolder()
  launcher = spawnCli(['up', '--json'], folder.env)
  plane = JSON.parse(await firstLine(launcher))
})
afterAll(async () => {
  launcher.kill('SIGINT')
  await finish(launcher)
  await folder.remove()
})

/** The shell blocks under a heading of a page. */
function blocksUnder(heading: string, page = readme): string[] {
  const section = page.split(/^## /m).find((part) => part.startsWith(heading)) ?? ''
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

/** What the program of the benches has of an argument, which names one of them or is an option. */
function benchArgument(argument: string): string {
  const [, option] = /^--(\w+)$/.exec(argument) ?? []
  return option === undefined ? `'${argument}'` : `\n    ${option}: { type: `
}

describe('docs/running.md', () => {
  const quotaplane = (commands: string): Promise<Finished> =>
    type(onThisPlane(`alias quotaplane="node $PWD/dist/services/cli/main.js"\n${commands}`))

  async function works(commands: string | undefined): Promise<string> {
    if (commands === undefined) throw new Error('the page has such a block')
    // A plane of single processes is not as it should be for production, and the doctor's exit code says so.
    const told = commands.replaceAll('quotaplane doctor', '(quotaplane doctor || [ $? = 1 ])')
    const done = await quotaplane(told)
    expect(done.exitCode, `${commands}\n${done.out}\n${done.err}`).toBe(0)
    return done.out
  }

  it('shows commands that work as they stand: look at a plane, take a region away and bring it back', async () => {
    const [, look] = blocksUnder('Install', running)
    const looked = await works(look)
    expect(looked).toContain('0 problems')
    expect(looked).toMatch(/tenant=acme is limited by api\/per-tenant/)
    const [look2] = blocksUnder('Upgrade', running)
    expect(await works(look2)).toContain('is applied everywhere')
    const [drain, remove] = blocksUnder('Remove a region', running)
    expect(await works(drain)).toMatch(/^eu-west-1 +drain/m)
    await expect
      .poll(async () => (await quotaplane(remove ?? 'false')).exitCode, { timeout: 60_000 })
      .toBe(0)
  })

  it('shows how to add a region and how to keep policies as files', async () => {
    const [install = ''] = blocksUnder('Install', running)
    await works(/^quotaplane keys create [^#\n]+/m.exec(install)?.[0])
    const [register, split] = blocksUnder('Add a region', running)
    expect(await works(register)).toMatch(/^ap-south-1 /m)
    expect(await works(split)).toContain('Nothing would change')
    const [backup = ''] = blocksUnder('Back up', running)
    const [, exported] = /^(quotaplane export [^#\n]+)/m.exec(backup) ?? []
    await works(exported)
  })

  it('names only npm scripts and benches that exist', async () => {
    const { scripts } = JSON.parse(await readFile(join(PACKAGE_ROOT, 'package.json'), 'utf8'))
    const benches = await readFile(join(PACKAGE_ROOT, 'test/bench/main.ts'), 'utf8')
    const named = [...running.matchAll(/npm run ([\w:]+)(?: -- ([\w./-]+))?/g)]
    expect(named.length).toBeGreaterThan(5)
    for (const [, script = '', argument = ''] of named) {
      expect(Object.keys(scripts)).toContain(script)
      if (script === 'bench') expect(benches).toContain(benchArgument(argument))
      if (argument.startsWith('test/')) await readFile(join(PACKAGE_ROOT, argument))
    }
    const compose = await readFile(join(PACKAGE_ROOT, 'docker-compose.multi-region.yml'), 'utf8')
    const services = [
      ...running.matchAll(/multi-region\.yml (?:kill|pause|stop|restart) ([\w-]+)/g),
    ]
    expect(services.length).toBeGreaterThan(3)
    for (const [, service] of services) expect(compose).toContain(`\n  ${service}:\n`)
  })
})
