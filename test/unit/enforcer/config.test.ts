import { describe, expect, it } from 'vitest'
import { enforcerEnv } from '../../../services/enforcer/config.ts'
import { readEnv } from '../../../shared/runtime/env.ts'

const read = (bits: string) => () =>
  readEnv(enforcerEnv, { REGION: 'r', REDIS_URL: '/redis', SENDER_NETWORK_BITS: bits })

describe('an enforcer', () => {
  it.each(['65', '128', '31', '0', '56.5', '/64'])(
    'does not start with networks of %s bits (B076)',
    (bits) => {
      expect(read(bits)).toThrow(/SENDER_NETWORK_BITS/)
    },
  )

  it('tells IPv6 senders apart by 64 bits unless told otherwise', () => {
    expect(read('')().SENDER_NETWORK_BITS).toBe(64)
    expect(read('56')().SENDER_NETWORK_BITS).toBe(56)
  })
})
