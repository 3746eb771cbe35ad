import { existsSync, readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { parse } from 'yaml'
import { z } from 'zod'

/** No container engine runs here, so what the compose file and the Dockerfile say is compared with the code. */

const serviceSchema = z.object({
  image: z.string(),
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

function sourceOf(service: z.infer<typeof serviceSchema>): string {
  const entry = service.command?.[1] ?? ''
  return entry.replace(/^dist\//, '').replace(/\.js$/, '.ts')
}

describe('docker-compose.multi-region.yml', () => {
  it('starts only entry points that the build produces', () => {
    expect(ours.length).toBeGreaterThan(0)
    for (const [, service] of ours)
      expect(existsSync(sourceOf(service)), sourceOf(service)).toBe(true)
  })

  it('sets only variables that the service reads', () => {
    for (const [name, service] of ours) {
      const config = readFileSync(sourceOf(service).replace('main.ts', 'config.ts'), 'utf8')
      const unknown = Object.keys(service.environment).filter(
        (variable) => !config.includes(`${variable}:`),
      )
      expect(unknown, name).toEqual([])
    }
  })

  it('asks each service for readiness on the port it listens on', () => {
    for (const [name, service] of ours) {
      const port = Object.entries(service.environment).find(([variable]) =>
        variable.endsWith('_PORT'),
      )?.[1]
      expect(service.healthcheck?.test.join(' '), name).toContain(`http://127.0.0.1:${port}/readyz`)
    }
  })

  it('gives each region its own Redis, NATS, sync daemon and enforcer', () => {
    const regions = ours
      .map(([, service]) => service.environment['REGION'])
      .filter((r) => r !== undefined)
    for (const region of new Set(regions)) {
      for (const part of ['redis', 'nats', 'sync', 'enforcer']) {
        expect(Object.keys(compose.services)).toContain(`${region}-${part}`)
      }
      expect(compose.services[`${region}-sync`]?.environment['REDIS_URL']).toBe(
        compose.services[`${region}-enforcer`]?.environment['REDIS_URL'],
      )
    }
  })

  it('reaches only services that exist', () => {
    const urls = ours.flatMap(([, service]) => Object.values(service.environment))
    const hosts = urls.flatMap(
      (url) => /^(?:redis|nats|postgres):\/\/(?:[^@]*@)?([^:/]+):\d+/.exec(url)?.[1] ?? [],
    )
    expect(hosts.length).toBeGreaterThan(0)
    for (const host of hosts) expect(Object.keys(compose.services)).toContain(host)
  })

  it('waits only for services that have a health check', () => {
    for (const [, service] of services) {
      for (const dependency of Object.keys(service.depends_on)) {
        expect(compose.services[dependency]?.healthcheck, dependency).toBeDefined()
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
