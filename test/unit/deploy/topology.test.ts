import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, it } from 'vitest'
import { parse } from 'yaml'
import { localNatsConfig } from '../../../services/cli/deployment/nats-config.ts'
import { readTopology } from '../../../services/cli/deployment/topology-file.ts'
import { runProgram } from '../../../services/cli/program.ts'
import { ioWith } from '../cli/fake-io.ts'

const topology = readTopology('deploy/topology.yaml')
const compose = parse(readFileSync('docker-compose.multi-region.yml', 'utf8'), { merge: true }) as {
  services: Readonly<Record<string, { ports?: string[]; volumes?: string[] }>>
}
const named = (pattern: RegExp): string[] =>
  Object.keys(compose.services).filter((name) => pattern.test(name))

const folder = mkdtempSync(join(tmpdir(), 'quotaplane-topology-'))
afterAll(() => rmSync(folder, { recursive: true }))

describe('deploy/topology.yaml', () => {
  it('has what the compose file has, in each region', () => {
    const regions = named(/-redis$/).map((name) => name.replace(/-redis$/, ''))
    expect(topology.regions.map(({ name }) => name).sort()).toEqual(regions.sort())
    for (const { name, enforcers, syncDaemons } of topology.regions) {
      expect(named(new RegExp(`^${name}-enforcer-\\d$`))).toHaveLength(enforcers)
      expect(named(new RegExp(`^${name}-sync-\\d$`))).toHaveLength(syncDaemons)
    }
    expect(named(/^admin-\d$/)).toHaveLength(topology.admins)
  })

  it('names the configuration files that the compose file mounts', () => {
    for (const { name } of topology.regions) {
      const mounted = (part: string): string =>
        compose.services[`${name}-${part}`]?.volumes?.join() ?? ''
      expect(mounted('redis')).toContain('./deploy/redis/redis.conf:')
      expect(mounted('nats')).toContain(`./deploy/nats/${name}.conf:`)
    }
    expect(topology.redis).toBe(join(process.cwd(), 'deploy/redis/redis.conf'))
    expect(topology.nats).toBe(join(process.cwd(), 'deploy/nats'))
  })

  it('asks for the ports that the compose file publishes', () => {
    const published = (name: string): number =>
      Number(compose.services[name]?.ports?.[0]?.split(':')[0])
    expect(topology.adminPort).toBe(published('admin-1'))
    for (const { name, enforcerPort } of topology.regions) {
      expect(enforcerPort).toBe(published(`${name}-enforcer-1`))
    }
  })
})

describe('a topology', () => {
  const told = async (text: string): Promise<string> => {
    const path = join(folder, 'topology.yaml')
    writeFileSync(path, text)
    const io = ioWith({})
    const exitCode = await runProgram(['up', '--topology', path], io)
    return `${exitCode} ${io.written.err}`
  }
  const REGION = '{ name: here, enforcers: 1, syncDaemons: 1 }'

  it.each([
    ['redis: a\nnats: b\nadmins: 1\nregions: []', 'regions: '],
    [`redis: a\nnats: b\nadmins: 0\nregions: [${REGION}]`, 'admins: '],
    [`redis: a\nnats: b\nadmins: 1\nregions: [${REGION}, ${REGION}]`, 'must name each region once'],
    [`redis: a\nnats: b\nadmins: 1\nregions: [{ name: Ü }]`, 'regions.0.name: must be a region'],
    [`redis: a\nnats: b\nadmins: 1\nextra: 1\nregions: [${REGION}]`, 'the file: '],
    ['{', 'topology.yaml: '],
  ])('that cannot be started is refused by its field, %j', async (text, why) => {
    const refused = await told(text)
    expect(refused).toMatch(/^2 quotaplane: /)
    expect(refused).toContain(why)
  })

  it('is not joined with flags that say something else', async () => {
    for (const args of [
      ['--data', folder],
      ['--topology', 'deploy/topology.yaml', '--regions', 'a,b'],
      ['--topology', join(folder, 'nothing.yaml')],
    ]) {
      const io = ioWith({})
      expect(await runProgram(['up', ...args], io), io.written.err).toBe(2)
    }
  })
})

describe('the configuration of a NATS', () => {
  const ports = new Map(
    topology.regions.map(({ name }, i) => [
      name,
      { client: 1 + i, gateway: 11 + i, monitor: 21 + i },
    ]),
  )
  const [region = ''] = ports.keys()
  const file = `${region}.conf`
  const keys = '/plane/keys'
  const text = readFileSync(`deploy/nats/${file}`, 'utf8')

  it('has nothing changed but addresses, and where the keys are', () => {
    const local = localNatsConfig(text, { region, ports, file, keys })
    const changed = local.split('\n').filter((line, index) => line !== text.split('\n')[index])
    expect(changed.map((line) => line.trim())).toEqual([
      'listen: 127.0.0.1:1',
      'http: 127.0.0.1:21',
      'listen: 127.0.0.1:11',
      `cert_file: "/plane/keys/gateway-${region}.crt"`,
      `key_file: "/plane/keys/gateway-${region}.key"`,
      'ca_file: "/plane/keys/gateways.crt"',
      ...[...ports].map(
        ([name, { gateway }]) => `{ name: ${name}, url: "nats://127.0.0.1:${gateway}" }`,
      ),
    ])
  })

  it('is refused where a server would start and be alone', () => {
    const lonely = text.replace('eu-west-1-nats:7222', 'elsewhere:7222')
    expect(() => localNatsConfig(lonely, { region, ports, file, keys })).toThrow(
      'eu-west-1-nats:7222',
    )
    const fewer = new Map([...ports].slice(0, 2))
    expect(() => localNatsConfig(text, { region, ports: fewer, file, keys })).toThrow(
      'not in the topology',
    )
  })
})
