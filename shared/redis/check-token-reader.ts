import type { CheckToken } from '../core/check-tokens.ts'
import type { CheckTokenReader } from '../core/ports.ts'
import { REGION_KEYS, type RegionField } from './keys.ts'
import { readWithin } from './policy-reader.ts'
import { onNodeOf, type RegionRedis } from './region-redis.ts'

const AS_OF: RegionField = 'checkTokensAsOf'
const TOKENS: RegionField = 'checkTokens'

/** Reads tokens for checks for enforcers: only when there are others than those that are known. */
export function createCheckTokenReader({
  redis,
}: {
  readonly redis: RegionRedis
}): CheckTokenReader {
  const read = (...fields: readonly RegionField[]) =>
    readWithin('read the tokens for checks', () =>
      onNodeOf(redis, REGION_KEYS.region, (node) => node.hmget(REGION_KEYS.region, ...fields)),
    )
  return {
    async readOther(knownAsOfMs) {
      const [head] = await read(AS_OF)
      if (head == null || Number(head) === knownAsOfMs) return null
      // Both at once: they are written at once.
      const [asOf, tokens] = await read(AS_OF, TOKENS)
      if (asOf == null || tokens == null) return null
      return { asOfMs: Number(asOf), tokens: JSON.parse(tokens) as readonly CheckToken[] }
    },
  }
}
