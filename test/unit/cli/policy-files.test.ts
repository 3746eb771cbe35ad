import { describe, expect, it } from 'vitest'
import { readPolicies } from '../../../services/cli/policy-files.ts'
import { ioWith } from './fake-io.ts'

const VALID = `domain: api
name: per-tenant
match:
  - key: tenant
limits:
  - name: per-second
    algorithm: token_bucket
    capacity: 100
    windowMs: 1000
    split: { us-east-1: 60, eu-west-1: 40 }
`

const read = (text: string) => readPolicies('-', ioWith({ stdin: text }))

describe('a policy file', () => {
  it('may be YAML or JSON', async () => {
    const [policy] = await read(VALID)
    const [same] = await read(JSON.stringify(policy?.document))
    expect(same?.document).toEqual(policy?.document)
    expect(policy?.document.limits[0]).toMatchObject({ capacity: 100, floorPercent: 2 })
  })

  it('may hold several documents, empty ones among them', async () => {
    const policies = await read(`---\n${VALID}---\n---\n${VALID.replace('per-tenant', 'other')}`)
    expect(policies.map(({ where }) => where)).toEqual(['standard input:2', 'standard input:14'])
  })

  it('is refused whole, naming file, line, document, field and fix of each problem', async () => {
    const bad = VALID.replace('per-tenant', 'other').replace('60', '70').replace('100', '-1')
    const problem = read(`${VALID}---\n${bad}`)
    await expect(problem).rejects.toThrow(
      /standard input:21 \(document 2\): limits\[0\]\.split: sums to 110, and must sum to 100 \(give weights/,
    )
    await expect(problem).rejects.toThrow(/standard input:19 \(document 2\): limits\[0\]\.capacity/)
    await expect(problem).rejects.toThrow(/Nothing was applied/)
  })

  it('is refused for a misspelt field, at its line', async () => {
    await expect(read(VALID.replace('capacity', 'capcity'))).rejects.toThrow(
      /standard input:8: limits\[0\]\.capcity: is not a field.*did you mean capacity\?/,
    )
  })

  it('is refused for broken YAML, at its line', async () => {
    await expect(read(VALID.replace('- key: tenant', '- key: "tenant'))).rejects.toThrow(
      /standard input:\d+: /,
    )
  })

  it('is refused when it names a policy twice or none', async () => {
    await expect(read(`${VALID}---\n${VALID}`)).rejects.toThrow(/per-tenant is also at/)
    await expect(read('\n')).rejects.toThrow(/holds no policy/)
  })
})
