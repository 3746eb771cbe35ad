import { setTimeout as delay } from 'node:timers/promises'
import { z } from 'zod'
import { CliError } from '../errors.ts'

/** A change of policy reaches every region within two seconds; this is far beyond it. */
const ACTIVE_TIMEOUT_MS = 15_000
const POLL_MS = 50

export interface DescriptorBody {
  readonly entries: readonly { readonly key: string; readonly value: string }[]
}

const answerSchema = z.object({ decisions: z.array(z.object({ limit: z.number() })) })

/** Waits until each enforcer decides these descriptors by `decisions` limits; reads without spending anything. */
export async function whenEnforced(
  urls: readonly string[],
  check: {
    readonly domain: string
    readonly descriptors: readonly DescriptorBody[]
    readonly decisions: number
  },
  signal: AbortSignal,
): Promise<void> {
  const deadlineMs = performance.now() + ACTIVE_TIMEOUT_MS
  for (const url of urls) {
    while ((await decisionsAt(url, check, signal)) !== check.decisions) {
      if (performance.now() > deadlineMs) {
        throw new CliError(`the policies of ${check.domain} did not reach the enforcer at ${url}`)
      }
      await delay(POLL_MS)
    }
  }
}

async function decisionsAt(
  url: string,
  { domain, descriptors }: { domain: string; descriptors: readonly DescriptorBody[] },
  signal: AbortSignal,
): Promise<number> {
  signal.throwIfAborted()
  const response = await fetch(`${url}/v1/check`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ domain, descriptors, cost: 0 }),
    signal: AbortSignal.timeout(ACTIVE_TIMEOUT_MS),
  })
  const answer = answerSchema.safeParse(await response.json())
  return answer.success ? answer.data.decisions.length : 0
}
