import { readdirSync, readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { parse } from 'yaml'
import { z } from 'zod'
import { parseAuthorizeQuery } from '../../../services/enforcer/authorize-query.ts'
import { AUTHORIZE_PATH } from '../../../services/enforcer/authorize-route.ts'
import { DRAFT_HEADERS } from '../../../shared/protocol/rate-limit-headers.ts'
import { RLS_SERVICE } from '../../../shared/protocol/rls-messages.ts'
import { CHECK_DEADLINE_MS } from '../../../shared/redis/check-store.ts'
import { STRETCH_MAX } from '../../../shared/redis/deadlines.ts'
import { CALLS_OF_A_CHECK, rateLimitTimeoutMs } from '../../support/envoy-timeout.ts'

/** No gateways but nginx and HAProxy run in tests, so what the examples say is compared with what the enforcer takes. */

const FOLDER = 'deploy/gateways'
const examples = readdirSync(FOLDER).map((name) => ({
  name,
  text: readFileSync(`${FOLDER}/${name}`, 'utf8'),
}))

const yamlOf = (name: string): unknown => parse(readFileSync(`${FOLDER}/${name}`, 'utf8'))

const traefikSchema = z.strictObject({
  http: z.strictObject({
    middlewares: z.record(
      z.string(),
      z.strictObject({
        forwardAuth: z.strictObject({
          address: z.string(),
          authRequestHeaders: z.array(z.string()),
        }),
      }),
    ),
    routers: z.record(
      z.string(),
      z.strictObject({
        rule: z.string(),
        middlewares: z.array(z.string()),
        service: z.string(),
      }),
    ),
    services: z.record(
      z.string(),
      z.strictObject({
        loadBalancer: z.strictObject({ servers: z.array(z.strictObject({ url: z.url() })) }),
      }),
    ),
  }),
})

const kongSchema = z.strictObject({
  _format_version: z.literal('3.0'),
  services: z.array(
    z.strictObject({
      name: z.string(),
      url: z.url(),
      routes: z.array(z.strictObject({ name: z.string(), paths: z.array(z.string()) })),
      plugins: z.array(
        z.strictObject({
          name: z.string(),
          config: z.strictObject({ access: z.array(z.string()) }),
        }),
      ),
    }),
  ),
})

describe('deploy/gateways/envoy.yaml', () => {
  it('waits longer than an enforcer that decides without its Redis', () => {
    const timeoutMs = rateLimitTimeoutMs(readFileSync(`${FOLDER}/envoy.yaml`, 'utf8'))
    expect(timeoutMs).toBeGreaterThan(CALLS_OF_A_CHECK * STRETCH_MAX * CHECK_DEADLINE_MS)
  })
})

describe('deploy/gateways', () => {
  it.each(examples.filter(({ name }) => name.endsWith('.yaml')))('$name is YAML', ({ text }) => {
    expect(parse(text)).toBeTypeOf('object')
  })

  it('asks the enforcer by parameters that it takes', () => {
    const queries = examples.flatMap(({ name, text }) =>
      [...text.matchAll(/\b(domain=[^;'"\s]+)/g)].map((match) => `${name} ${match[1]}`),
    )
    expect(queries.length).toBeGreaterThanOrEqual(4)
    for (const found of queries) {
      const query = new URLSearchParams(found.slice(found.indexOf(' ') + 1))
      expect(parseAuthorizeQuery(query, DRAFT_HEADERS).domain, found).toBe('api')
    }
  })

  it("checks the enforcer's health from Envoy by the name that the enforcer gives", () => {
    const envoy = examples.find(({ name }) => name === 'envoy.yaml')
    expect(envoy?.text).toContain(`service_name: ${RLS_SERVICE}`)
  })

  it("has Traefik send each request by a middleware that asks the enforcer's address", () => {
    const { http } = traefikSchema.parse(yamlOf('traefik.yaml'))
    const routers = Object.values(http.routers)
    expect(routers.length).toBeGreaterThan(0)
    for (const { middlewares, service } of routers) {
      expect(Object.keys(http.services)).toContain(service)
      const asked = middlewares.map((name) => http.middlewares[name]?.forwardAuth.address)
      expect(asked.map((address) => new URL(String(address)).pathname)).toEqual([AUTHORIZE_PATH])
    }
    const named = Object.values(http.middlewares).flatMap(
      (one) => one.forwardAuth.authRequestHeaders,
    )
    expect(named).toContain('X-Tenant')
  })

  it('has Kong ask before it hands a request on, and let it pass while nobody answers', () => {
    const { services } = kongSchema.parse(yamlOf('kong.yaml'))
    const plugins = services.flatMap((service) => service.plugins)
    expect(plugins.map(({ name }) => name)).toEqual(['pre-function'])
    const code = plugins.flatMap(({ config }) => config.access).join('\n')
    expect(code).toContain(`${AUTHORIZE_PATH}'`)
    expect(code).toContain('if not answer or answer.status >= 500 then return end')
    expect(code).toContain("headers['retry-after']")
  })

  it('is all linked from docs/gateways.md', () => {
    const page = readFileSync('docs/gateways.md', 'utf8')
    for (const { name } of examples) expect(page).toContain(`deploy/gateways/${name}`)
  })
})
