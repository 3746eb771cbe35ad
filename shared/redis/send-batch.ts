/** Sends one batch of calls as one script call, whatever the script. */
import type { Command } from 'ioredis'
import { QuotaError } from '../errors.ts'
import { onNodeOf, type RegionRedis } from './region-redis.ts'
import { type Refusal, refusalOf } from './scripts.ts'
import type { ServedScripts, ServedShas } from './served-scripts.ts'

export interface SendOptions {
  readonly redis: RegionRedis
  readonly scripts: ServedScripts
  readonly script: keyof ServedShas
}

export interface SentBatch {
  /** One of its keys; all are on the same server. */
  readonly key: string
  readonly version: number
  /** True once it was sent a second time, with scripts read anew. */
  isRepeated: boolean
  /** Whether its callers were told that it takes too long: it must not be sent again, and so count after all. */
  isGivenUp(): boolean
  command(sha: string): Command
  /** Gives each waiting caller its part of the reply. */
  answer(reply: unknown): void
  reject(err: unknown): void
}

/** Gives what tells the batch's callers how it went. Never rejects. */
export async function sendBatch(options: SendOptions, batch: SentBatch): Promise<() => void> {
  const { redis, scripts, script } = options
  let used: ServedShas | null = null
  try {
    used = scripts.shas ?? (await scripts.read())
    if (used === null) return () => batch.reject(notServed())
    const sha = used[script]
    const reply = await onNodeOf(redis, batch.key, async (node) => {
      if (batch.isGivenUp()) throw new Error('its callers were answered meanwhile')
      return await node.sendCommand(batch.command(sha))
    })
    const refusal = refusalOf(reply)
    if (refusal === null) return () => batch.answer(reply)
    if (refusal !== 'not-served' && refusal !== 'other-server') {
      return () => batch.reject(refused(refusal, batch.version))
    }
  } catch (err) {
    if (!isNoScript(err)) return () => batch.reject(unavailable('Redis did not decide', err))
  }
  return repeat(options, batch, used)
}

/** Sends a batch that changed nothing once more if other scripts are served by now. */
async function repeat(
  options: SendOptions,
  batch: SentBatch,
  used: ServedShas | null,
): Promise<() => void> {
  const { scripts, script } = options
  try {
    const served = await scripts.read()
    const isOther = served !== null && served[script] !== used?.[script]
    if (batch.isRepeated || batch.isGivenUp() || !isOther) return () => batch.reject(notServed())
  } catch (err) {
    return () => batch.reject(unavailable('Redis did not say what it serves', err))
  }
  batch.isRepeated = true
  return sendBatch(options, batch)
}

export function tooLate(deadlineMs: number): QuotaError {
  return unavailable(`Redis did not answer within ${deadlineMs} ms`)
}

export function tooManyWait(waiting: number): QuotaError {
  return new QuotaError('QUOTA_OVERLOADED', `${waiting} checks are waiting for Redis already`)
}

/** Redis has no such script: it restarted, and its daemon has not served it since. */
function isNoScript(err: unknown): boolean {
  return err instanceof Error && err.message.startsWith('NOSCRIPT')
}

function notServed(): QuotaError {
  return unavailable('no sync daemon serves this Redis')
}

function unavailable(message: string, cause?: unknown): QuotaError {
  return new QuotaError('QUOTA_STORE_UNAVAILABLE', message, { cause })
}

function refused(refusal: Refusal, version: number): QuotaError {
  if (refusal === 'other-time') {
    return unavailable("this host's clock is off by more than a window of a calendar")
  }
  return refusal === 'stale'
    ? new QuotaError('QUOTA_POLICY_STALE', `the region has newer policies than version ${version}`)
    : new QuotaError('QUOTA_INVALID_INPUT', `the script refused its arguments (${refusal})`)
}
