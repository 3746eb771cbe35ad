import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type Admin, startAdmin } from './admin-harness.ts'

// biome-ignore lint/suspicious/noExplicitAny: a test reads the fields it names, and fails on others.
type Json = any

let admin: Admin
let operations: readonly { name: string; path: string; method: string; operation: Json }[]

beforeAll(async () => {
  admin = await startAdmin()
  await admin.register('us-east-1', 'eu-west-1')
  await admin.create()
  const document = (await admin.app.inject({ url: '/openapi.json' })).json()
  expect(document.openapi).toMatch(/^3\.1\./)
  operations = Object.entries<Json>(document.paths).flatMap(([path, methods]) =>
    Object.entries<Json>(methods).map(([method, operation]) => {
      return { name: `${method} ${path}`, path, method, operation }
    }),
  )
})
afterAll(async () => await admin.close())

describe('the OpenAPI document', () => {
  it('gives every route a summary and a group, and every parameter an example', () => {
    expect(operations.length).toBeGreaterThan(30)
    for (const { name, operation } of operations) {
      expect(operation.summary, name).toMatch(/\w/)
      expect(operation.tags, name).toHaveLength(1)
      for (const parameter of operation.parameters ?? []) {
        expect(parameter.example, `${name} ${parameter.name}`).toBeDefined()
      }
    }
  })

  it('gives every body and every answer of the API an example, and every refusal a problem', () => {
    for (const { name, operation, path } of operations) {
      if (!path.startsWith('/v1/')) continue
      const { '4XX': refusal, '5XX': failure, ...answers } = operation.responses
      for (const one of [refusal, failure]) {
        expect(Object.keys(one.content), name).toEqual(['application/problem+json'])
      }
      const contents = [operation.requestBody, ...Object.values<Json>(answers), refusal]
      for (const media of contents.flatMap((one) => Object.values<Json>(one?.content ?? {}))) {
        expect(media.example ?? media.examples, name).toBeDefined()
      }
    }
  })

  it('gives no example of a body that its own route would call malformed', async () => {
    for (const { name, operation, path, method } of operations) {
      const example = operation.requestBody?.content?.['application/json']?.example
      if (example === undefined) continue
      const values: Record<string, string> = { id: 'us-east-1', number: '1' }
      const url = path.replace(/\{(\w+)\}/g, (_all, param: string) => {
        const named = operation.parameters.find((one: Json) => one.name === param)
        return encodeURIComponent(values[param] ?? String(named?.example))
      })
      const verb = method.toUpperCase() as 'POST' | 'PUT'
      const answer = await admin.call(verb, `${url}?dryRun=true`, example, { 'if-match': '*' })
      const shown = `${name}: ${JSON.stringify(answer.body).slice(0, 500)}`
      expect([400, 413, 415], shown).not.toContain(answer.status)
    }
  })
})

describe('the page of the API', () => {
  it('shows every route, without a script, and lets the browser load nothing', async () => {
    const { headers, body, statusCode } = await admin.app.inject({ url: '/docs' })
    expect(statusCode).toBe(200)
    expect(headers['content-type']).toContain('text/html')
    expect(headers['content-security-policy']).toContain("default-src 'none'")
    for (const { path } of operations) expect(body).toContain(`<code>${path}</code>`)
    expect(body).not.toMatch(/<script|https?:\/\/(?!\w+\.example)/i)
  })
})
