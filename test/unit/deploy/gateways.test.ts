import { readdirSync, readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { parse } from 'yaml'
import { parseAuthorizeQuery } from '../../../services/enforcer/authorize-query.ts'
import { DRAFT_HEADERS } from '../../../shared/protocol/rate-limit-headers.ts'
import { RLS_SERVICE } from '../../../shared/protocol/rls-messages.ts'

/** No gateway but nginx runs in tests, so what the examples say is compared with what the enforcer takes. */

const FOLDER = 'deploy/gateways'
const examples = readdirSync(FOLDER).map((name) => ({
  name,
  text: readFileSync(`${FOLDER}/${name}`, 'utf8'),
}))

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

  it('is all linked from docs/gateways.md', () => {
    const page = readFileSync('docs/gateways.md', 'utf8')
    for (const { name } of examples) expect(page).toContain(`deploy/gateways/${name}`)
  })
})
