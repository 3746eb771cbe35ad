import { nkeys } from 'nats'
import { describe, expect, it } from 'vitest'
import { adminEnv } from '../../../services/admin/config.ts'
import { enforcerEnv } from '../../../services/enforcer/config.ts'
import { syncEnv } from '../../../services/sync/config.ts'
import { readEnv } from '../../../shared/runtime/env.ts'

type Environment = Readonly<Record<string, string>>

const USABLE = {
  REGION: 'us-east-1',
  REDIS_URL: 'redis://redis:6379',
  NATS_URL: 'nats://one:4222, tls://two:4222',
  DATABASE_URL: 'postgresql://db/quotaplane',
}

const SERVICES = {
  enforcer: (given: Environment) => readEnv(enforcerEnv, { ...USABLE, ...given }),
  sync: (given: Environment) => readEnv(syncEnv, { ...USABLE, ...given }),
  admin: (given: Environment) => readEnv(adminEnv, { ...USABLE, ...given }),
}

/** The lines of the report of what is not usable. */
function reportOf(read: () => unknown): readonly string[] {
  try {
    read()
    return []
  } catch (err) {
    return String(err instanceof Error ? err.message : err)
      .split('\n')
      .slice(1)
  }
}

const seedOf = (pair: ReturnType<typeof nkeys.createUser>): string =>
  new TextDecoder().decode(pair.getSeed())

describe('the settings of every service', () => {
  it.each(Object.entries(SERVICES))('are taken as the documents say, %s', (_, read) => {
    const traces = {
      OTEL_EXPORTER_OTLP_ENDPOINT: 'http://collector:4318',
      OTEL_EXPORTER_OTLP_HEADERS: 'authorization=Bearer%20abc,x-team=a,',
      OTEL_RESOURCE_ATTRIBUTES: 'deployment.environment=test',
    }
    expect(reportOf(() => read({ NATS_NKEY_SEED: seedOf(nkeys.createUser()), ...traces }))).toEqual(
      [],
    )
  })

  it('that are missing are named, each with where to look', () => {
    const nothing = { REGION: '', REDIS_URL: '', NATS_URL: '', DATABASE_URL: '' }
    expect(reportOf(() => SERVICES.sync(nothing))).toEqual(
      ['REGION', 'REDIS_URL', 'NATS_URL'].map(
        (name) => `  ${name}: missing; docs/settings.md says what it is`,
      ),
    )
  })

  it.each([
    ['enforcer', { ENFORCER_PORT: 'abc' }, 'ENFORCER_PORT: must be a number'],
    ['enforcer', { ENFORCER_PORT: '80.5' }, 'ENFORCER_PORT: must be a whole number'],
    ['enforcer', { ENFORCER_GRPC_PORT: '99999' }, 'ENFORCER_GRPC_PORT: must be at most 65535'],
    ['enforcer', { REDIS_DEADLINE_MS: '0' }, 'REDIS_DEADLINE_MS: must be at least 1'],
    ['enforcer', { LOG_LEVEL: 'loud' }, 'LOG_LEVEL: must be one of fatal, error, warn,'],
    ['enforcer', { ENFORCER_GRPC_PORT: '8080' }, 'ENFORCER_GRPC_PORT: must be another port'],
    ['enforcer', { DRAIN_DELAY_MS: '10000' }, 'DRAIN_DELAY_MS: must be below SHUTDOWN_DEADLINE_MS'],
    ['sync', { NATS_URL: 'nats://' }, 'NATS_URL: must be a nats:// or tls:// URL with a host'],
    ['sync', { NATS_URL: 'nats://a:4222,http://b' }, 'NATS_URL: must be a nats:// or tls:// URL'],
    ['admin', { NATS_URL: 'nats://a b' }, 'NATS_URL: must be a nats:// or tls:// URL'],
    ['admin', { OIDC_ISSUER: 'https://issuer' }, 'OIDC_AUDIENCE: missing; set OIDC_ISSUER,'],
    ['admin', { QUOTAPLANE_ADMIN_TOKEN: 'x' }, 'QUOTAPLANE_ADMIN_TOKEN: must have at least 16'],
    ['sync', { OTEL_EXPORTER_OTLP_HEADERS: 'a b=c' }, 'OTEL_EXPORTER_OTLP_HEADERS: must be'],
    ['sync', { OTEL_EXPORTER_OTLP_HEADERS: 'a=b%0Ac' }, 'OTEL_EXPORTER_OTLP_HEADERS: must be'],
    ['sync', { OTEL_EXPORTER_OTLP_HEADERS: 'token' }, 'OTEL_EXPORTER_OTLP_HEADERS: must be'],
    ['sync', { OTEL_RESOURCE_ATTRIBUTES: 'team' }, 'OTEL_RESOURCE_ATTRIBUTES: must be name=value'],
  ] as const)('that cannot work end the start of %s: %o', (service, given, told) => {
    const report = reportOf(() => SERVICES[service](given))
    expect(
      report.some((line) => line.startsWith(`  ${told}`)),
      report.join('\n'),
    ).toBe(true)
  })

  it('name a seed of NATS that is none, or not that of a user, without saying it', () => {
    const account = seedOf(nkeys.createAccount())
    const key = nkeys.createUser().getPublicKey()
    for (const seed of ['SUAnoseed', account, key]) {
      const report = reportOf(() => SERVICES.sync({ NATS_NKEY_SEED: seed })).join('\n')
      expect(report).toMatch(/NATS_NKEY_SEED: is no seed of a user; give what/)
      expect(report).not.toContain(seed)
    }
  })
})
