import { describe, expect, it } from 'vitest'
import { z } from 'zod'
import { port, readEnv } from '../../../shared/runtime/env.ts'
import { OTHER_NAMES, SETTING_NAMES } from '../../../shared/runtime/setting-names.ts'
import { unknownSettings, warnOfUnknown } from '../../../shared/runtime/unknown-settings.ts'

const schema = z.object({ ENFORCER_PORT: port.default(8080) })

/** What Kubernetes 1.30 sets in each pod of a namespace that has these services. */
const SERVICE_LINKS = {
  ENFORCER_SERVICE_HOST: '10.0.0.7',
  ENFORCER_SERVICE_PORT: '8080',
  ENFORCER_SERVICE_PORT_HTTP: '8080',
  ENFORCER_PORT: 'tcp://10.0.0.7:8080',
  ENFORCER_PORT_8080_TCP: 'tcp://10.0.0.7:8080',
  ENFORCER_PORT_8080_TCP_PROTO: 'tcp',
  ENFORCER_PORT_8080_TCP_PORT: '8080',
  ENFORCER_PORT_8080_TCP_ADDR: '10.0.0.7',
  REDIS_PORT: 'tcp://10.0.0.8:6379',
  NATS_PORT_8222_UDP_ADDR: '10.0.0.9',
  QUOTAPLANE_ENFORCER_PORT: 'tcp://10.0.0.7:8080',
}

const hintsFor = (environment: Readonly<Record<string, string>>): readonly string[] =>
  unknownSettings(environment).map(({ name, message }) => `${name} ${message}`)

describe('a variable that looks like a setting', () => {
  it.each([
    ['ENFORCER_REQUIRE_TOKENS', 'ENFORCER_REQUIRE_TOKEN'],
    ['ENFORCR_PORT', 'ENFORCER_PORT'],
    ['ENFORCER_TSL_CERT', 'ENFORCER_TLS_CERT'],
    ['ENFORCER_TLS_CRET_FILE', 'ENFORCER_TLS_CERT_FILE'],
    ['SYNC_PROT', 'SYNC_PORT'],
    ['ENFORCER_TOKEN_REQUIRED', 'ENFORCER_REQUIRE_TOKEN'],
    ['REDIS_PASWORD', 'REDIS_PASSWORD'],
    ['DRAIN_DELAY', 'DRAIN_DELAY_MS'],
    ['RATE_LIMIT_HEADER', 'RATE_LIMIT_HEADERS'],
    ['LOG_LEVL', 'LOG_LEVEL'],
  ])('%s is told from a setting, with the one that was meant', (name, meant) => {
    expect(hintsFor({ [name]: 'x' })).toEqual([`${name} is no setting; did you mean ${meant}?`])
  })

  it('but is near to none is told of without a guess', () => {
    expect(hintsFor({ REDIS_HOST: 'x', ENFORCER_COLOUR: 'blue' })).toEqual([
      'REDIS_HOST is no setting; docs/settings.md has them all',
      'ENFORCER_COLOUR is no setting; docs/settings.md has them all',
    ])
  })

  it('is not told of where any service or the command reads it, by itself or as a file, or it is empty', () => {
    const known = [...SETTING_NAMES.flatMap((name) => [name, `${name}_FILE`]), ...OTHER_NAMES]
    expect(hintsFor(Object.fromEntries(known.map((name) => [name, '1'])))).toEqual([])
    expect(hintsFor({ ENFORCER_COLOUR: '' })).toEqual([])
  })

  it('is not told of where it belongs to the platform or to another program', () => {
    const others = { GRPC_PORT: '1', AWS_REGION: 'r', REGIONS: 'a,b', HOSTNAME: 'h', PORT: '1' }
    expect(hintsFor({ ...SERVICE_LINKS, ...others })).toEqual([])
  })
})

describe('a service', () => {
  const read = (environment: Readonly<Record<string, string>>) =>
    readEnv(schema, environment, 'ENFORCER_')

  it('does not start with a misspelt setting of its own, and says all that is wrong at once, but no value', () => {
    const start = () => read({ ENFORCER_PORT: 'hunter2', ENFORCER_REQUIRE_TOKENS: 's3cret' })
    expect(start).toThrow(/ENFORCER_PORT: [\s\S]*ENFORCER_REQUIRE_TOKENS: is no setting; did you/)
    expect(start).not.toThrow(/hunter2|s3cret/)
  })

  it('starts with what may be another program’s, and warns of it', () => {
    const environment = { REDIS_HOST: 'redis', ENFORCER_COLOUR: 'blue', SYNC_PORT: '7080' }
    expect(read(environment).ENFORCER_PORT).toBe(8080)
    const warned: unknown[] = []
    warnOfUnknown(environment, { warn: (fields: object) => void warned.push(fields) } as never)
    expect(warned).toEqual([
      { variable: 'REDIS_HOST', hint: 'is no setting; docs/settings.md has them all' },
      { variable: 'ENFORCER_COLOUR', hint: 'is no setting; docs/settings.md has them all' },
    ])
  })

  it('starts beside a Kubernetes service of its own name, with its default port', () => {
    expect(read(SERVICE_LINKS).ENFORCER_PORT).toBe(8080)
  })
})
