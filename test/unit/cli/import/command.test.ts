import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { readPolicies } from '../../../../services/cli/policy-files.ts'
import { runProgram } from '../../../../services/cli/program.ts'
import { ioWith } from '../fake-io.ts'

const ENVOY = `domain: edge_proxy
descriptors:
  - {key: user, rate_limit: {unit: minute, requests_per_unit: 1}}
  - {key: path, value: "/v1/*", share_threshold: true, rate_limit: {unit: hour, requests_per_unit: 70}}
`
let folder: string
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'quotaplane-import-'))
})
afterAll(() => rm(folder, { recursive: true, force: true }))

async function run(stdin: string, ...args: readonly string[]) {
  const io = ioWith({ stdin })
  const exitCode = await runProgram(['import', ...args], io)
  return { exitCode, ...io.written }
}

describe('quotaplane import', () => {
  it('prints policies that policy apply takes, split as it is told', async () => {
    const { exitCode, out, err } = await run(
      ENVOY,
      'envoy',
      '-',
      '--split',
      'us-east-1=60,eu-west-1=40',
    )
    expect({ exitCode, err }).toEqual({ exitCode: 0, err: '' })
    const policies = await readPolicies('-', ioWith({ stdin: out }))
    expect(policies.map(({ document }) => document)).toMatchObject([
      { name: 'user', acceptSmallLimits: true, limits: [{ split: { 'us-east-1': 60 } }] },
      {
        name: 'path-v1-any',
        match: [{ shared: true }],
        limits: [{ capacity: 70, windowMs: 3_600_000 }],
      },
    ])
  })

  it('writes a file for each domain, and splits evenly between regions that are only named', async () => {
    const path = join(folder, 'envoy.yaml')
    const to = join(folder, 'policies')
    await writeFile(path, ENVOY)
    const { exitCode, out, err } = await run('', 'envoy', path, '--split', 'a,b,c', '-o', to)
    expect({ exitCode, out }).toEqual({ exitCode: 0, out: '' })
    expect(err).toContain('edge_proxy.yaml: 2 policies')
    expect(await readdir(to)).toEqual(['edge_proxy.yaml'])
    expect(await readFile(join(to, 'edge_proxy.yaml'), 'utf8')).toMatch(
      /a: 33.34\n\s+b: 33.33\n\s+c: 33.33/,
    )
  })

  it('ends with 2 and file, line and field for what the original refuses', async () => {
    const refused = await run('domain: d\ndescriptors:\n- {ky: a}\n', 'envoy', '-', '--split', 'a')
    expect(refused).toMatchObject({ exitCode: 2, out: '' })
    expect(refused.err).toContain(
      "standard input:3: descriptors[0].ky: config error, unknown key 'ky' (did you mean key?)",
    )
    expect(await run('', 'envoy', join(folder, 'none.yaml'))).toMatchObject({ exitCode: 2 })
  })

  it('ends with 1, lists what is left out, and applies nothing then unless it is told to', async () => {
    const limits = '[{namespace: n, seconds: 1, max_value: 1, conditions: ["true"], variables: []}]'
    const partial = await run(limits, 'limitador', '-', '--split', 'a')
    expect(partial).toMatchObject({ exitCode: 1, out: '' })
    expect(partial.err).toContain('left out: standard input:1: [0].conditions[0]: ')
    const refused = await run(limits, 'limitador', '-', '--split', 'a', '--apply')
    expect(refused).toMatchObject({ exitCode: 1 })
    expect(refused.err).toContain('say --partial')
  })

  it.each([
    ['weights that do not sum to 100', ['--split', 'a=50,b=40']],
    ['a name without another', ['--domain', 'a']],
  ])('refuses %s', async (_what, args) => {
    expect(await run(ENVOY, 'envoy', '-', ...args)).toMatchObject({ exitCode: 2 })
  })
})
