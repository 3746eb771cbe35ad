import { describe, expect, it } from 'vitest'
import { adminEnv } from '../../../services/admin/config.ts'
import { urlsOf } from '../../../shared/postgres/servers.ts'
import { readEnv } from '../../../shared/runtime/env.ts'

const WRITES = 'target_session_attrs=read-write'

describe('a URL of Postgres', () => {
  it.each([
    ['postgresql://a:b@one:5432/plane', ['postgresql://a:b@one:5432/plane']],
    ['postgresql://a@/plane?host=/run', ['postgresql://a@/plane?host=/run']],
    [
      `postgresql://a:b%2Cc@one:5432,[::1]:5433,three/plane?${WRITES}`,
      [
        'postgresql://a:b%2Cc@one:5432/plane',
        'postgresql://a:b%2Cc@[::1]:5433/plane',
        'postgresql://a:b%2Cc@three/plane',
      ],
    ],
    [
      `postgresql://one,two/plane?sslmode=require&${WRITES}&application_name=x`,
      [
        'postgresql://one/plane?sslmode=require&application_name=x',
        'postgresql://two/plane?sslmode=require&application_name=x',
      ],
    ],
  ])('names each server by a URL of its own: %s', (url, urls) => {
    expect(urlsOf(url)).toEqual(urls)
  })

  const read = (url: string) => () =>
    readEnv(adminEnv, { NATS_URL: 'nats://nats', DATABASE_URL: url })
  it.each([
    ['postgresql://one,/plane', 'as host:port'],
    ['postgresql://a,b,c,d,e,f/plane', 'at most 5'],
    ['postgresql://a@/plane?host=one,two', 'before the database'],
    ['postgresql://one,two/plane?target_session_attrs=any', 'target_session_attrs=read-write'],
    ['postgresql://one/plane?target_session_attrs=standby', 'target_session_attrs=read-write'],
  ])('is refused by name, with what to write instead: %s', (url, said) => {
    expect(read(url)).toThrow(new RegExp(`DATABASE_URL: must .*${said}`))
  })

  it('may name the server that takes writes as libpq does', () => {
    for (const wanted of ['', `?${WRITES}`, '?target_session_attrs=primary']) {
      expect(read(`postgresql://one:5432,two:5432/plane${wanted}`)).not.toThrow()
    }
  })
})
