import { execFile } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { promisify } from 'node:util'
import { describe, expect, it } from 'vitest'
import { parse } from 'yaml'
import { z } from 'zod'

/** What the compose file asks of its containers, and which images they are. */

const serviceSchema = z.object({
  image: z.string(),
  profiles: z.array(z.string()).default([]),
  build: z.object({}).optional(),
  restart: z.string().optional(),
  ports: z.array(z.string()).default([]),
  healthcheck: z.object({ test: z.array(z.string()) }).optional(),
})
const textOf = (path: string): string => readFileSync(path, 'utf8')
const { services } = z
  .object({ services: z.record(z.string(), serviceSchema) })
  .parse(parse(textOf('docker-compose.multi-region.yml'), { merge: true }))
const named = (pattern: RegExp) => Object.entries(services).filter(([name]) => pattern.test(name))
const probeOf = (name: string): readonly string[] => services[name]?.healthcheck?.test ?? []

/** What `docs/running.md` says that a plane needs at least, by the name it has there. */
const NEEDS = textOf('docs/running.md')
const needed = (what: string): string => new RegExp(`${what} (\\d[\\d.]*)`).exec(NEEDS)?.[1] ?? ''
const isAtLeast = (version: string, least: string): boolean =>
  version.localeCompare(least, 'en', { numeric: true }) >= 0

describe('the containers of docker-compose.multi-region.yml', () => {
  it('are each asked for their health, but those that do something once', () => {
    const lasting = Object.entries(services).filter(
      ([, { profiles, restart }]) => profiles.length === 0 && restart === 'unless-stopped',
    )
    expect(lasting).toHaveLength(3 * 7 + 5)
    const unasked = lasting.filter(([, { healthcheck }]) => healthcheck === undefined)
    expect(unasked.map(([name]) => name)).toEqual([])
    const single = Object.entries(services).filter(([, { restart }]) => restart === 'on-failure')
    expect(single.map(([name]) => name).sort()).toEqual(['keys', 'migrate', 'regions'])
  })

  it('of NATS answer where their configuration has them say how they are', () => {
    const regions = named(/-nats$/)
    expect(regions).toHaveLength(3)
    for (const [name] of regions) {
      const config = textOf(`deploy/nats/${name.replace(/-nats$/, '')}.conf`)
      const [, at] = /^http: (\S+)$/m.exec(config) ?? []
      expect(probeOf(name).at(-1)).toBe(`http://${at}/healthz`)
    }
  })

  it.each([
    ['prometheus', '/-/ready'],
    ['grafana', '/api/health'],
  ])('of %s are asked on the port that is published', (name, path) => {
    const port = services[name]?.ports[0]?.split(':')[1]
    expect(probeOf(name).at(-1)).toBe(`http://127.0.0.1:${port}${path}`)
  })

  it('of Envoy are healthy once Envoy says that it is live, and not before', async () => {
    const config = z
      .object({
        admin: z.object({
          address: z.object({
            socket_address: z.object({ address: z.literal('127.0.0.1'), port_value: z.number() }),
          }),
        }),
      })
      .parse(parse(textOf('deploy/envoy/region.yaml')))
    const envoys = named(/-envoy$/)
    expect(envoys).toHaveLength(3)
    let state = 'PRE_INITIALIZING'
    const server = createServer((req, res) => {
      res.writeHead(state === 'LIVE' ? 200 : 503).end(`${req.url === '/ready' ? state : '?'}\n`)
    }).listen(0, '127.0.0.1')
    await once(server, 'listening')
    const { port } = server.address() as AddressInfo
    const from = `127.0.0.1/${config.admin.address.socket_address.port_value}`
    const isHealthy = async (name: string): Promise<boolean> => {
      const [, ...probe] = probeOf(name).map((word) => word.replace(from, `127.0.0.1/${port}`))
      expect(probe.at(-1)).toContain(`127.0.0.1/${port} `)
      const [command = '', ...args] = probe
      return await promisify(execFile)(command, args, { timeout: 2_000 }).then(
        () => true,
        () => false,
      )
    }
    for (const [name] of envoys) expect(await isHealthy(name), name).toBe(false)
    state = 'LIVE'
    for (const [name] of envoys) expect(await isHealthy(name), name).toBe(true)
    await new Promise((resolve) => server.close(resolve))
    expect(await isHealthy(envoys[0]?.[0] ?? '')).toBe(false)
  })
})

describe('the images of docker-compose.multi-region.yml', () => {
  it('are servers of versions that the documents allow, the same in every region', () => {
    for (const [pattern, name, what] of [
      [/-redis$/, 'redis', 'Redis'],
      [/-nats$/, 'nats', 'NATS'],
      [/^postgres$/, 'postgres', 'PostgreSQL'],
    ] as const) {
      const images = new Set(named(pattern).map(([, { image }]) => image))
      expect(images.size, what).toBe(1)
      const [image = ''] = images
      const [, version = ''] = new RegExp(`^${name}:(\\d[\\d.]*)-`).exec(image) ?? []
      expect(needed(what), what).not.toBe('')
      expect(isAtLeast(version, needed(what)), `${image}, ${what} ${needed(what)}`).toBe(true)
    }
    // Of Redis the documents name one, and no later.
    expect(services['us-east-1-redis']?.image).toMatch(new RegExp(`^redis:${needed('Redis')}\\.`))
  })

  it('are all of a named version', () => {
    const others = Object.values(services).filter(({ build }) => build === undefined)
    for (const { image } of others) expect(image).toMatch(/^[a-z/]+:v?\d+\.?\d*/)
  })

  it('of our own are the one that is built, by the name that the charts have', () => {
    const dockerfile = textOf('deploy/Dockerfile')
    const [, name = ''] = /docker build .* -t (\S+) /.exec(dockerfile) ?? []
    const ours = Object.values(services).filter(({ build }) => build !== undefined)
    expect(new Set(ours.map(({ image }) => image))).toEqual(new Set([`${name}:local`]))
    for (const chart of ['control', 'region']) {
      const values = parse(textOf(`deploy/helm/${chart}/values.yaml`))
      expect(values.image.repository).toBe(name)
    }
  })

  it('of our own have the Node.js that the documents say, and that is tried', () => {
    const dockerfile = textOf('deploy/Dockerfile')
    const versions = [...dockerfile.matchAll(/^FROM node:(\d+)-/gm)].map(([, version]) => version)
    expect(versions).toHaveLength(2)
    const [, ofImage] = /the image has (\d+)/.exec(textOf('CONTRIBUTING.md')) ?? []
    expect(new Set(versions)).toEqual(new Set([ofImage]))
    const [, tried = ''] = /tried: ([\d, and]+)\)/.exec(NEEDS) ?? []
    expect(tried.match(/\d+/g)).toContain(ofImage)
  })
})
