import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import type { CheckToken } from '../../shared/core/check-tokens.ts'
import { createCheckTokenReader } from '../../shared/redis/check-token-reader.ts'
import { aLimit, RedisRegion } from '../support/redis-region.ts'

const tokenOf = (id: string, change: Partial<CheckToken> = {}): CheckToken => ({
  id,
  digest: 'x'.repeat(43),
  domains: null,
  expiresAtMs: null,
  ...change,
})

let region: RedisRegion
beforeAll(async () => {
  region = await RedisRegion.start()
})
afterAll(() => region.stop())
beforeEach(async () => {
  await region.redis.flushall()
  await region.begin([aLimit()])
})

describe('an enforcer that reads the tokens for checks', () => {
  it('gets nothing before there are any, then all of them, and nothing while they stay', async () => {
    const reader = createCheckTokenReader({ redis: region.redis })
    expect(await reader.readOther(null)).toBeNull()
    const tokens = [tokenOf('a', { domains: ['api', 'mail'] }), tokenOf('b', { expiresAtMs: 5 })]
    await region.daemon.writeCheckTokens({ asOfMs: 100, tokens })
    expect(await reader.readOther(null)).toEqual({ asOfMs: 100, tokens })
    expect(await reader.readOther(100)).toBeNull()
  })

  it('gets those that took their place, also when there are none any more', async () => {
    const reader = createCheckTokenReader({ redis: region.redis })
    await region.daemon.writeCheckTokens({ asOfMs: 100, tokens: [tokenOf('a')] })
    await region.daemon.writeCheckTokens({ asOfMs: 200, tokens: [] })
    expect(await reader.readOther(100)).toEqual({ asOfMs: 200, tokens: [] })
  })

  it('finds them after a boot and after other policies: those change no tokens', async () => {
    const reader = createCheckTokenReader({ redis: region.redis })
    const tokens = { asOfMs: 100, tokens: [tokenOf('a')] }
    await region.daemon.writeCheckTokens(tokens)
    await region.boot(2)
    await region.write([aLimit({ capacity: 7 })])
    expect(await reader.readOther(null)).toEqual(tokens)
  })
})
