import type { RegionLimit } from '../core/policy.ts'
import type { Denial, DenialLog } from '../core/ports.ts'
import { isQuotaError, QuotaError } from '../errors.ts'
import { counterKey, groupKeys } from './keys.ts'
import { limitDoubles, packDoubles } from './layout.ts'
import type { RegionRedis } from './region-redis.ts'
import { refusalOf, runScript } from './scripts.ts'
import { ServedScripts } from './served-scripts.ts'

/** Most counters of one script call, so that it stalls the checks for well under a millisecond. */
const COUNTERS_MAX = 64

/** A DenialLog over a client that neither queues nor repeats commands (`createRedis`). */
export function createDenialLog({ redis }: { readonly redis: RegionRedis }): DenialLog {
  const scripts = new ServedScripts(redis)

  const noteSome = async (
    group: number,
    denials: readonly Denial[],
    version: number,
  ): Promise<void> => {
    try {
      const served = scripts.shas ?? (await scripts.read())
      if (served === null) throw unavailable('no sync daemon serves this Redis')
      const { meta, hot, usage } = groupKeys(group)
      const keys = [meta, hot, usage, ...denials.map(({ target }) => counterKey(target.counter))]
      const reply = await runScript(redis, served.noteDenials, keys, [version, ...packed(denials)])
      const refusal = refusalOf(reply)
      if (refusal !== null) throw unavailable(`Redis refused to count denials (${refusal})`)
    } catch (err) {
      // Whatever was served may be served no more; the next call looks again.
      scripts.forget()
      throw isQuotaError(err) ? err : unavailable('Redis did not count denials', err)
    }
  }

  return {
    async note(group, denials, version) {
      const calls = Math.ceil(denials.length / COUNTERS_MAX)
      for (let call = 0; call < calls; call++) {
        const some = denials.slice(call * COUNTERS_MAX, (call + 1) * COUNTERS_MAX)
        await noteSome(group, some, version)
      }
    },
  }
}

function packed(denials: readonly Denial[]): readonly [Buffer, Buffer] {
  const limits: RegionLimit[] = []
  const doubles = denials.flatMap(({ target: { limit }, tokens }) => {
    if (!limits.includes(limit)) limits.push(limit)
    return [limits.indexOf(limit) + 1, tokens]
  })
  const atMs = Date.now()
  return [packDoubles(limits.flatMap((limit) => limitDoubles(limit, atMs))), packDoubles(doubles)]
}

function unavailable(message: string, cause?: unknown): QuotaError {
  return new QuotaError('QUOTA_STORE_UNAVAILABLE', message, { cause })
}
