import { mkdir, mkdtemp, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { runProgram } from '../../../services/cli/program.ts'
import { ioWith } from '../../unit/cli/fake-io.ts'

/** What a run leaves that is killed: files in `.writing`, or some of them moved out of `.written`. */

let folder: string
let keys: string
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'quotaplane-unfinished-'))
  keys = join(folder, 'keys')
})
afterEach(() => rm(folder, { recursive: true, force: true }))

async function run(...args: string[]) {
  const io = ioWith({})
  const code = await runProgram(['keys', ...args], io)
  return { code, ...io.written, names: io.written.out.trim().split('\n').filter(Boolean) }
}
const create = (...more: string[]) =>
  run('create', '--region', 'us-east-1', 'eu-west-1', '--out', keys, ...more)

const contents = async () =>
  new Map(
    await Promise.all(
      (await readdir(keys)).map(
        async (name) => [name, await readFile(join(keys, name), 'utf8')] as const,
      ),
    ),
  )

/** Takes the last files back to where they were before they were moved out, as of a run that was killed by then. */
async function unmove(names: readonly string[], from: number): Promise<void> {
  await mkdir(join(keys, '.written'))
  for (const [index, name] of names.entries()) {
    if (index < from) continue
    await rename(
      join(keys, name),
      join(keys, '.written', `${String(index).padStart(6, '0')} ${name}`),
    )
  }
}

describe('quotaplane keys create', () => {
  it('begins anew where a run was killed before all were written, with and without --if-missing', async () => {
    await mkdir(join(keys, '.writing'), { recursive: true })
    await writeFile(join(keys, '.writing', '000000 admin.token'), 'half')
    const { code, names } = await create('--if-missing')
    expect(code).toBe(0)
    expect((await readdir(keys)).sort()).toEqual([...names].sort())
    expect(await readFile(join(keys, 'admin.token'), 'utf8')).not.toContain('half')
    await rm(keys, { recursive: true })
    await mkdir(join(keys, '.writing'), { recursive: true })
    expect((await create()).code).toBe(0)
  })

  it('finishes what was written, wherever the run was killed, and changes none of it', async () => {
    const { names } = await create()
    const whole = await contents()
    expect(names.length).toBeGreaterThan(10)
    for (let from = 0; from < names.length; from++) {
      await unmove(names, from)
      const again = await create('--if-missing')
      expect(again.code, again.err).toBe(0)
      expect(again.names).toEqual(names.slice(from))
      expect(await contents()).toEqual(whole)
    }
  })

  it('adds with --if-missing what an earlier version did not write, and changes nothing else', async () => {
    await create()
    const whole = await contents()
    await rm(join(keys, 'debug-eu-west-1.token'))
    const { code, names } = await create('--if-missing')
    expect([code, names]).toEqual([0, ['debug-eu-west-1.token']])
    const now = await contents()
    expect(now.get('debug-eu-west-1.token')).toMatch(/^[\w-]{43}\n$/)
    const others = (all: ReadonlyMap<string, string>) =>
      [...all].filter(([name]) => name !== 'debug-eu-west-1.token').sort()
    expect(others(now)).toEqual(others(whole))
    expect((await create('--if-missing')).names).toEqual([])
    expect(await contents()).toEqual(now)
  })
})

describe('quotaplane keys add', () => {
  it('finishes what a killed run wrote for the same region', async () => {
    await create()
    const add = () => run('add', '--region', 'ap-south-1', '--to', keys)
    const { names } = await add()
    const whole = await contents()
    await unmove(names, 2)
    const again = await add()
    expect([again.code, again.names]).toEqual([0, names.slice(2)])
    expect(await contents()).toEqual(whole)
    expect((await add()).err).toContain('already; to renew the keys of ap-south-1')
  })
})
