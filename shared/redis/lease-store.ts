import type { LeaseAsk, LeaseStore } from '../core/ports.ts'
import { isQuotaError, QuotaError } from '../errors.ts'
import { counterKey, groupKeys, leaseKey } from './keys.ts'
import { limitDoubles, packDoubles, unpackDoubles } from './layout.ts'
import type { RegionRedis } from './region-redis.ts'
import { bytesOf, refusalOf, runScript } from './scripts.ts'
import { ServedScripts, type ServedShas } from './served-scripts.ts'

const MICROS = 1_000

/**
 * A LeaseStore over a client that neither queues nor repeats commands (`createRedis`).
 *
 * No deadline of its own: nobody waits for a lease, and one that comes late is worth less or nothing, since its life
 * is counted from the sending.
 */
export function createLeaseStore({ redis }: { readonly redis: RegionRedis }): LeaseStore {
  const scripts = new ServedScripts(redis)
  const run = async (
    script: keyof ServedShas,
    keys: readonly string[],
    { target, tokens, version }: LeaseAsk & { readonly version: number },
  ): Promise<unknown> => {
    try {
      const served = scripts.shas ?? (await scripts.read())
      if (served === null) throw unavailable('no sync daemon serves this Redis')
      const args = [version, packDoubles(limitDoubles(target.limit, Date.now())), tokens]
      const reply = await runScript(redis, served[script], keys, args)
      throwRefusal(reply, version)
      return reply
    } catch (err) {
      if (isQuotaError(err, 'QUOTA_POLICY_STALE')) throw err
      // Whatever was served may be served no more; the next call looks again.
      scripts.forget()
      throw isQuotaError(err) ? err : unavailable('Redis did not lease', err)
    }
  }
  return {
    async grant(ask, version) {
      const { meta, hot, usage } = groupKeys(ask.group)
      const keys = [meta, hot, usage, counterKey(ask.target.counter), leaseKey(ask.group, ask.id)]
      const reply = unpackDoubles(bytesOf(await run('lease', keys, { ...ask, version })))
      const [tokens = 0, atUs = 0, lifeUs = 0, remaining = 0, resetMs = 0] = reply
      return tokens < 0 ? null : { tokens, atUs, lifeMs: lifeUs / MICROS, remaining, resetMs }
    },
    async giveUp(left, version) {
      const { meta, usage } = groupKeys(left.group)
      const keys = [meta, usage, counterKey(left.target.counter), leaseKey(left.group, left.id)]
      await run('returnLease', keys, { ...left, version })
    },
  }
}

function throwRefusal(reply: unknown, version: number): void {
  const refusal = refusalOf(reply)
  if (refusal === null) return
  if (refusal !== 'stale') throw unavailable(`Redis refused to lease (${refusal})`)
  const message = `the region has newer policies than version ${version}`
  throw new QuotaError('QUOTA_POLICY_STALE', message)
}

function unavailable(message: string, cause?: unknown): QuotaError {
  return new QuotaError('QUOTA_STORE_UNAVAILABLE', message, { cause })
}
