import { createPrivateKey, X509Certificate } from 'node:crypto'
import { mkdir, mkdtemp, readdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises'
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
    const later = ['debug-eu-west-1.token', 'gateways.crt', 'gateways.key'].concat(
      ...['us-east-1', 'eu-west-1'].map((region) => [
        `gateway-${region}.crt`,
        `gateway-${region}.key`,
      ]),
    )
    for (const name of later) await rm(join(keys, name))
    const { code, names } = await create('--if-missing')
    expect([code, names.sort()]).toEqual([0, later.sort()])
    const now = await contents()
    expect(now.get('debug-eu-west-1.token')).toMatch(/^[\w-]{43}\n$/)
    const others = (all: ReadonlyMap<string, string>) =>
      [...all].filter(([name]) => !later.includes(name)).sort()
    expect(others(now)).toEqual(others(whole))
    expect((await create('--if-missing')).names).toEqual([])
    expect(await contents()).toEqual(now)
  })
})

describe('the certificates of gateways', () => {
  const read = async (name: string) => new X509Certificate(await readFile(join(keys, name)))

  it('are of one authority, which makes no others, and name what the other regions call the server', async () => {
    const hosts = ['us-east-1=nats.example.org', 'us-east-1=10.1.2.3']
    const { code } = await create('--gateway-host', ...hosts)
    expect(code).toBe(0)
    await run('add', '--region', 'ap-south-1', '--to', keys)
    const authority = await read('gateways.crt')
    expect(authority.ca).toBe(true)
    for (const region of ['us-east-1', 'eu-west-1', 'ap-south-1']) {
      const cert = await read(`gateway-${region}.crt`)
      const key = createPrivateKey(await readFile(join(keys, `gateway-${region}.key`)))
      expect(cert.verify(authority.publicKey)).toBe(true)
      expect([cert.ca, cert.checkPrivateKey(key)]).toEqual([false, true])
      expect(cert.checkHost(`${region}-nats`)).toBe(`${region}-nats`)
      expect(Date.parse(cert.validTo) - Date.now()).toBeGreaterThan(9 * 365 * 86_400_000)
    }
    const us = await read('gateway-us-east-1.crt')
    expect([us.checkHost('nats.example.org'), us.checkIP('10.1.2.3')]).not.toContain(undefined)
    expect((await read('gateway-eu-west-1.crt')).checkHost('nats.example.org')).toBeUndefined()
    expect((await stat(join(keys, 'gateways.key'))).mode & 0o077).toBe(0)
  })

  it.each(['eu-west-2=nats.example.org', 'us-east-1', 'us-east-1=', 'us-east-1=a b'])(
    'are not made for %s, and nothing is written',
    async (host) => {
      const { code, err } = await create('--gateway-host', host)
      expect(code).toBe(2)
      expect(err).toContain(`--gateway-host ${host}: must be a region of --region`)
      expect(await readdir(folder)).toEqual([])
    },
  )
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
