import type { RegionPolicy } from '../core/policy.ts'
import type { PolicyReader } from '../core/ports.ts'
import { QuotaError } from '../errors.ts'
import { REGION_KEYS, type RegionField } from './keys.ts'
import { onNodeOf, type RegionRedis } from './region-redis.ts'
import { parseAll } from './region-state.ts'

/** Longest wait for a reading. Enforcers go on with the policies that they have, so this may take its time. */
const READ_DEADLINE_MS = 1_000

const FIELDS: readonly RegionField[] = ['version', 'incarnation', 'revision', 'format']

const HEAD: readonly RegionField[] = ['version', 'revision']

export function createPolicyReader({ redis }: { readonly redis: RegionRedis }): PolicyReader {
  return {
    readHead: () =>
      within('read the policy version', async () => {
        const [version, revision] = await onNodeOf(redis, REGION_KEYS.region, (node) =>
          node.hmget(REGION_KEYS.region, ...HEAD),
        )
        return { version: Number(version ?? 0), revision: Number(revision ?? 0) }
      }),

    readAll: () =>
      within('read the policies', async () => {
        // One transaction: a version must never be read with the policies of another.
        const replies = await onNodeOf(redis, REGION_KEYS.region, (node) =>
          node
            .multi()
            .hmget(REGION_KEYS.region, ...FIELDS)
            .hvals(REGION_KEYS.policies)
            .exec(),
        )
        const [fields, texts] = (replies ?? []).map(([err, reply]) => {
          if (err !== null) throw err
          return reply as (string | null)[]
        })
        return {
          version: Number(fields?.[0] ?? 0),
          incarnation: Number(fields?.[1] ?? 0),
          revision: Number(fields?.[2] ?? 0),
          format: Number(fields?.[3] ?? 1),
          policies: parseAll<RegionPolicy>((texts ?? []).filter((text) => text !== null)),
        }
      }),
  }
}

async function within<T>(what: string, call: () => Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error('no reply in time')), READ_DEADLINE_MS)
  })
  try {
    return await Promise.race([call(), late])
  } catch (cause) {
    throw new QuotaError('QUOTA_STORE_UNAVAILABLE', `could not ${what}`, { cause })
  } finally {
    clearTimeout(timer)
  }
}
