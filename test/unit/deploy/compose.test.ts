import { existsSync, readFileSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { parse } from 'yaml'
import { z } from 'zod'
import { adminEnv } from '../../../services/admin/config.ts'
import { writeKeys } from '../../../services/cli/keys/write-keys.ts'
import { enforcerEnv } from '../../../services/enforcer/config.ts'
import { syncEnv } from '../../../services/sync/config.ts'
import { databaseUser, migrationEnv } from '../../../shared/postgres/settings.ts'
import { STRETCH_MAX } from '../../../shared/redis/deadlines.ts'
import { CALLS_OF_A_CHECK, rateLimitTimeoutMs } from '../../support/envoy-timeout.ts'
import { contentOf } from '../../support/setting-files.ts'

/** No container engine runs here, so what the compose file and the Dockerfile say is compared with the code. */

const serviceSchema = z.object({
  image: z.string(),
  profiles: z.array(z.string()).default([]),
  build: z.object({ context: z.string(), dockerfile: z.string() }).optional(),
  command: z.array(z.string()).optional(),
  environment: z.record(z.string(), z.string()).default({}),
  ports: z.array(z.string()).default([]),
  volumes: z.array(z.string()).default([]),
  healthcheck: z.object({ test: z.array(z.string()) }).optional(),
  depends_on: z.record(z.string(), z.object({ condition: z.string() })).default({}),
})

const compose = z
  .object({
    services: z.record(z.string(), serviceSchema),
    volumes: z.record(z.string(), z.unknown()),
  })
  .parse(parse(readFileSync('docker-compose.multi-region.yml', 'utf8'), { merge: true }))
const dockerfile = readFileSync('deploy/Dockerfile', 'utf8')
const services = Object.entries(compose.services)
const ours = services.filter(([, service]) => service.build !== undefined)
/** Services that stay up; the others do something once, by the command line. */
const running = ours.filter(([, service]) => !sourceOf(service).startsWith('services/cli/'))

const SCHEMAS: Readonly<Record<string, typeof adminEnv | typeof enforcerEnv | typeof syncEnv>> = {
  admin: adminEnv,
  enforcer: enforcerEnv,
  sync: syncEnv,
}

const NONE = serviceSchema.parse({ image: 'none' })

function sourceOf(service: z.infer<typeof serviceSchema>): string {
  const entry = /dist\/\S+\.js/.exec(service.command?.join(' ') ?? '')?.[0] ?? ''
  return entry.replace(/^dist\//, '').replace(/\.js$/, '.ts')
}

describe('docker-compose.multi-region.yml', () => {
  it('starts only entry points that the build produces', () => {
    expect(ours.length).toBeGreaterThan(0)
    for (const [, service] of ours)
      expect(existsSync(sourceOf(service)), sourceOf(service)).toBe(true)
  })

  it('gives each service an environment that it starts with', () => {
    for (const [name, service] of running) {
      const schema = SCHEMAS[sourceOf(service).split('/')[1] ?? '']
      if (schema === undefined) throw new Error(`${name} runs no service`)
      const read = Object.keys(schema.shape)
      const values = Object.fromEntries(
        Object.entries(service.environment).map(([variable, value]) => {
          const setting = variable.replace(/_FILE$/, '')
          return setting === variable ? [variable, value] : [setting, contentOf(setting)]
        }),
      )
      expect(
        Object.keys(values).filter((variable) => !read.includes(variable)),
        name,
      ).toEqual([])
      expect(schema.safeParse(values).error, name).toBeUndefined()
    }
  })

  it('migrates as the owner of the schema, and has admins serve as a role that owns nothing', () => {
    const owner = compose.services['postgres']?.environment['POSTGRES_USER']
    const migrate = compose.services['migrate']
    expect(migrate?.command?.slice(2)).toEqual(['admin', 'migrate'])
    const config = migrationEnv.parse(migrate?.environment)
    expect(databaseUser(config.DATABASE_MIGRATION_URL).name).toBe(owner)
    const admins = running.filter(([, service]) => sourceOf(service).includes('/admin/'))
    expect(admins).toHaveLength(2)
    for (const [name, { environment, depends_on }] of admins) {
      expect(environment['DATABASE_URL'], name).toBe(config.DATABASE_URL)
      expect(depends_on['migrate'], name).toEqual({ condition: 'service_completed_successfully' })
    }
    for (const [name, { environment }] of running) {
      expect(JSON.stringify(environment), name).not.toMatch(/POSTGRES_PASSWORD|DATABASE_MIGRATION/)
    }
  })

  it('mounts the file of every setting that is one, from what keys create writes', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'quotaplane-compose-'))
    const regions = [...new Set(running.flatMap(([, one]) => one.environment['REGION'] ?? []))]
    const written = await writeKeys(folder, regions)
    await rm(folder, { recursive: true })
    const files = running.flatMap(([, service]) =>
      Object.entries(service.environment).filter(([variable]) => variable.endsWith('_FILE')),
    )
    expect(files.length).toBeGreaterThan(regions.length)
    const mounted = files.map(([, path]) => path)
    mounted.push(...regions.map((region) => `/keys/redis-${region}.acl`))
    for (const path of mounted) expect(written.map((name) => `/keys/${name}`)).toContain(path)
    const made = compose.services['keys']?.command ?? []
    for (const region of regions) expect(made).toContain(region)
    for (const region of regions) {
      expect(readFileSync(`deploy/nats/${region}.conf`, 'utf8')).toContain(
        `include "keys/nats-${region}.conf"`,
      )
    }
  })

  it('has each service connect to its Redis as the user that it is', () => {
    const ofRegions = running.filter(([, { environment }]) => environment['REDIS_URL'])
    expect(ofRegions).toHaveLength(12)
    for (const [name, { environment }] of ofRegions) {
      const user = /-(enforcer|sync)-\d$/.exec(name)?.[1]
      const password = `/keys/redis-${environment['REGION']}-${user}.password`
      expect(environment['REDIS_USERNAME']).toBe(user)
      expect(environment['REDIS_PASSWORD_FILE']).toBe(password)
    }
  })

  it('asks each service for readiness on the port it listens on', () => {
    for (const [name, service] of running) {
      const port = Object.entries(service.environment).find(([variable]) =>
        variable.endsWith('_PORT'),
      )?.[1]
      expect(service.healthcheck?.test.join(' '), name).toContain(`http://127.0.0.1:${port}/readyz`)
    }
  })

  it('gives three regions a Redis, a NATS, an Envoy, two enforcers and two sync daemons each', () => {
    const regions = new Set(running.flatMap(([, service]) => service.environment['REGION'] ?? []))
    expect(regions.size).toBe(3)
    for (const region of regions) {
      const parts = [
        'redis',
        'nats',
        'envoy',
        'netem',
        'enforcer-1',
        'enforcer-2',
        'sync-1',
        'sync-2',
      ]
      for (const part of parts) expect(Object.keys(compose.services)).toContain(`${region}-${part}`)
      const urls = running
        .filter(([, service]) => service.environment['REGION'] === region)
        .map(([, service]) => service.environment['REDIS_URL'])
      expect(new Set(urls)).toEqual(new Set([`redis://${region}-redis:6379`]))
      const redis = compose.services[`${region}-redis`]
      expect(redis?.command).toEqual([
        'redis-server',
        '/etc/redis/redis.conf',
        '--aclfile',
        `/keys/redis-${region}.acl`,
      ])
      expect(redis?.volumes).toContain('./deploy/redis/redis.conf:/etc/redis/redis.conf:ro')
      const envoy = readFileSync('deploy/envoy/region.yaml', 'utf8').replaceAll('REGION', region)
      for (const [, host = ''] of envoy.matchAll(
        /address: ([a-z0-9-]+-enforcer-\d), port_value: 8081/g,
      )) {
        expect(compose.services[host]?.environment['ENFORCER_GRPC_PORT']).toBe('8081')
      }
    }
    expect(compose.services['regions']?.command?.join(' ')).toContain(
      `region register ${[...regions].join(' ')} `,
    )
  })

  it('has Envoy wait longer than an enforcer that decides without its Redis', () => {
    const timeoutMs = rateLimitTimeoutMs(readFileSync('deploy/envoy/region.yaml', 'utf8'))
    const enforcers = running.filter(([, service]) => sourceOf(service).includes('/enforcer/'))
    expect(enforcers).toHaveLength(6)
    for (const [name, { environment }] of enforcers) {
      const deadlineMs = Number(environment['REDIS_DEADLINE_MS'])
      expect(timeoutMs, name).toBeGreaterThan(CALLS_OF_A_CHECK * STRETCH_MAX * deadlineMs)
    }
  })

  it('lets Prometheus ask every service on the port that answers /metrics', () => {
    const prometheus = readFileSync('deploy/prometheus/prometheus.yml', 'utf8')
    const targets = running.map(([name, service]) => {
      const port = Object.entries(service.environment).find(([key]) => /^[A-Z]+_PORT$/.test(key))
      return `"${name}:${port?.[1]}"`
    })
    expect(targets.length).toBe(14)
    for (const target of targets) expect(prometheus).toContain(target)
    expect(prometheus.match(/"[a-z0-9-]+:\d+"/g)).toHaveLength(targets.length)
  })

  it('shows the dashboards of the repository in Grafana, from the Prometheus beside it', () => {
    const volumes = compose.services['grafana']?.volumes.join(' ') ?? ''
    const provider = readFileSync('deploy/grafana/provisioning/dashboards/quotaplane.yml', 'utf8')
    const path = /path: (\S+) /.exec(provider)?.[1]
    expect(volumes).toContain(`./deploy/grafana/dashboards:${path}:ro`)
    const source = readFileSync('deploy/grafana/provisioning/datasources/prometheus.yml', 'utf8')
    expect(Object.keys(compose.services)).toContain(/http:\/\/(\w+):9090/.exec(source)?.[1])
  })

  it('reaches only services that exist', () => {
    const urls = ours.flatMap(([, service]) => Object.values(service.environment))
    const hosts = urls.flatMap(
      (url) => /^(?:redis|nats|postgres|http):\/\/(?:[^@]*@)?([^:/]+):\d+/.exec(url)?.[1] ?? [],
    )
    expect(hosts.length).toBeGreaterThan(0)
    for (const host of hosts) expect(Object.keys(compose.services)).toContain(host)
  })

  it('waits only for services that have a health check, or that end', () => {
    for (const [, service] of services) {
      for (const [dependency, { condition }] of Object.entries(service.depends_on)) {
        const awaited = compose.services[dependency]
        expect(awaited, dependency).toBeDefined()
        if (condition === 'service_healthy') expect(awaited?.healthcheck, dependency).toBeDefined()
        else expect(sourceOf(awaited ?? NONE)).toBe('services/cli/main.ts')
      }
    }
  })

  it('mounts only files of the repository and volumes that it declares', () => {
    const sources = services.flatMap(([, service]) =>
      service.volumes.map((volume) => volume.split(':')[0] ?? ''),
    )
    for (const source of sources) {
      const isKnown = source.startsWith('./') ? existsSync(source) : source in compose.volumes
      expect(isKnown, source).toBe(true)
    }
  })

  it('publishes no host port twice', () => {
    const published = services.flatMap(([, service]) =>
      service.ports.map((port) => port.split(':')[0]),
    )
    expect(new Set(published).size).toBe(published.length)
  })

  it('joins the NATS of every region to that of every other', () => {
    const regions = services.flatMap(([name]) => /^(.*)-nats$/.exec(name)?.[1] ?? [])
    for (const region of regions) {
      const config = readFileSync(`deploy/nats/${region}.conf`, 'utf8')
      for (const peer of regions) expect(config).toContain(`nats://${peer}-nats:7222`)
    }
  })
})

describe('deploy/Dockerfile', () => {
  it('copies only what the repository has', () => {
    const copied = [...dockerfile.matchAll(/^COPY (?!--from)(.+) \S+$/gm)].flatMap(
      (match) => match[1]?.split(' ') ?? [],
    )
    expect(copied.length).toBeGreaterThan(0)
    for (const path of copied) expect(existsSync(path), path).toBe(true)
  })

  it('runs as an ordinary user behind an init that forwards signals', () => {
    expect(dockerfile).toMatch(/^USER node$/m)
    expect(dockerfile).toMatch(/^ENTRYPOINT \["tini", "--"\]$/m)
  })

  it('is the file that the compose file builds', () => {
    for (const [, service] of ours) expect(service.build?.dockerfile).toBe('deploy/Dockerfile')
  })
})
