import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { adminEnv } from '../../../services/admin/config.ts'
import { enforcerEnv } from '../../../services/enforcer/config.ts'
import { syncEnv } from '../../../services/sync/config.ts'
import { databaseTarget } from '../../../shared/postgres/settings.ts'
import { readEnv } from '../../../shared/runtime/env.ts'
import { type Certificates, makeCertificates } from '../../support/certificates.ts'

let made: Certificates
beforeAll(async () => {
  made = await makeCertificates(['one', 'two'])
})
afterAll(() => made.remove())

const ENFORCER = { REGION: 'here', REDIS_URL: 'rediss://redis' }
const ADMIN = { DATABASE_URL: 'postgresql://a:b@postgres/plane', NATS_URL: 'nats://nats' }

describe('certificates in settings', () => {
  it('are taken when key and certificate belong together', () => {
    const { ca, cert, key } = made.of('one')
    const listen = (name: string) => ({
      [`${name}_TLS_CERT`]: cert,
      [`${name}_TLS_KEY`]: key,
      [`${name}_TLS_CLIENT_CA`]: ca,
    })
    const redis = { REDIS_CA: ca, REDIS_CERT: cert, REDIS_KEY: key }
    const sync = { ...ENFORCER, ...redis, NATS_URL: 'nats://n', ...listen('SYNC') }
    const database = { DATABASE_CA: ca, DATABASE_CERT: cert, DATABASE_KEY: key }
    expect(() =>
      readEnv(enforcerEnv, { ...ENFORCER, ...redis, ...listen('ENFORCER') }),
    ).not.toThrow()
    expect(() => readEnv(syncEnv, sync)).not.toThrow()
    expect(() => readEnv(adminEnv, { ...ADMIN, ...database, ...listen('ADMIN') })).not.toThrow()
  })

  it.each([
    ['REDIS_KEY', { REDIS_CERT: 'one.cert' }, 'missing; REDIS_CERT is set'],
    ['REDIS_CERT', { REDIS_KEY: 'one.key' }, 'missing; REDIS_KEY is set'],
    ['REDIS_KEY', { REDIS_CERT: 'one.cert', REDIS_KEY: 'two.key' }, 'not the key of REDIS_CERT'],
    ['REDIS_CERT', { REDIS_CERT: 'one.key', REDIS_KEY: 'one.key' }, 'no readable certificate'],
    ['REDIS_KEY', { REDIS_CERT: 'one.cert', REDIS_KEY: 'one.cert' }, 'no readable private key'],
    ['REDIS_CA', { REDIS_CA: 'one.key' }, 'no readable certificate'],
    ['REDIS_CA', { REDIS_CA: 'cut' }, 'no readable certificate'],
    ['ENFORCER_TLS_CLIENT_CA', { ENFORCER_TLS_CLIENT_CA: 'one.ca' }, 'needs ENFORCER_TLS_CERT'],
    ['REDIS_URL', { REDIS_URL: 'redis://redis', REDIS_CA: 'one.ca' }, 'must be a rediss://'],
    ['REDIS_URL', { REDIS_URL: '/run/redis', REDIS_CA: 'one.ca' }, 'must be a rediss://'],
    ['REDIS_PASSWORD', { REDIS_USERNAME: 'me' }, 'missing; REDIS_USERNAME is set'],
    ['REDIS_URL', { REDIS_URL: 'redis://me:a@b', REDIS_PASSWORD: 'b' }, 'must name no user'],
    ['REDIS_URL', { REDIS_URL: 'redis+cluster://:a@b:1', REDIS_PASSWORD: 'b' }, 'must name no'],
  ])('are refused by the name of the setting, %s for %o', (name, given, why) => {
    const read = () => readEnv(enforcerEnv, { ...ENFORCER, ...contents(given) })
    expect(read).toThrow(new RegExp(`^  ${name}: .*${why}`, 'm'))
    expect(read).not.toThrow(/PRIVATE KEY/)
  })

  it.each([
    'postgresql://a@postgres/plane?sslmode=require',
    'postgresql://a@postgres/plane?x=1&sslmode=disable',
    'postgresql://a@postgres/plane?sslrootcert=/ca',
    'postgresql://a@/plane?host=/run/postgresql',
  ])('for Postgres are refused beside a URL that would undo them, %s', (url) => {
    const given = { ...ADMIN, DATABASE_URL: url, DATABASE_CA: made.ca }
    expect(() => readEnv(adminEnv, given)).toThrow(/^ {2}DATABASE_URL: must /m)
  })

  it('for Postgres leave of the URL what is not about TLS', () => {
    const target = (rest: string) =>
      databaseTarget({ DATABASE_URL: `postgresql://a@h/p${rest}`, DATABASE_CA: made.ca }).url
    expect(target('?sslmode=verify-full')).toBe('postgresql://a@h/p')
    expect(target('?sslmode=verify-full&a=1')).toBe('postgresql://a@h/p?a=1')
    expect(target('?a=1&sslmode=verify-full')).toBe('postgresql://a@h/p?a=1')
    expect(target('?a=1&sslmode=verify-full&b=2')).toBe('postgresql://a@h/p?a=1&b=2')
  })
})

function contents(given: object): Record<string, string> {
  const cut = `${made.ca.slice(0, 80)}\n-----END CERTIFICATE-----`
  const read = (text: string): string => {
    const [name = '', part = ''] = text.split('.')
    if (text === 'cut') return cut
    return /^(ca|cert|key)$/.test(part) ? made.of(name)[part as 'ca' | 'cert' | 'key'] : text
  }
  return Object.fromEntries(Object.entries(given).map(([name, text]) => [name, read(text)]))
}
