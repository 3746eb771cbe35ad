import { z } from 'zod'
import type { Io } from './io.ts'
import { callerFieldOf } from './settings.ts'
import { findLocalPlane } from './state-file.ts'

/** An enforcer answers within milliseconds; one that does not is told of, and the others are shown. */
const READ_TIMEOUT_MS = 2_000

/** Tokens that remain of each limit, by region. */
export type RemainingTokens = ReadonlyMap<string, ReadonlyMap<string, number>>

export interface Remaining {
  readonly tokens: RemainingTokens
  readonly problems: readonly { readonly region: string; readonly problem: string }[]
}

const answerSchema = z.looseObject({
  decisions: z.array(
    z.looseObject({ limitName: z.string(), limit: z.number(), remaining: z.number().nullable() }),
  ),
})

/**
 * Asks an enforcer of each region by a check of cost 0, which spends nothing; of regions without a known enforcer
 * nothing is said. Those of the local plane are asked where its admin is the one that was asked.
 */
export async function readRemaining(
  check: { readonly domain: string; readonly entries: readonly object[] },
  enforcers: { readonly given: ReadonlyMap<string, string>; readonly adminUrl: string },
  io: Io,
): Promise<Remaining> {
  const local = findLocalPlane(io.env)
  const known = new Map(
    local !== null && local.url === enforcers.adminUrl
      ? local.regions.map(({ region, enforcerUrl }) => [region, enforcerUrl] as const)
      : [],
  )
  const urls = [...new Map([...known, ...enforcers.given])]
  const body = JSON.stringify({
    domain: check.domain,
    descriptors: [{ entries: check.entries }],
    cost: 0,
  })
  const answers = await Promise.all(
    urls.map(async ([region, url]) => ({ region, answer: await read(url, body, io) })),
  )
  const tokens = new Map<string, ReadonlyMap<string, number>>()
  const problems: { readonly region: string; readonly problem: string }[] = []
  for (const { region, answer } of answers) {
    if (typeof answer === 'string') problems.push({ region, problem: answer })
    else tokens.set(region, answer)
  }
  return { tokens, problems }
}

/** What remains by the limit's name, or why nobody knows. */
async function read(
  url: string,
  body: string,
  io: Io,
): Promise<ReadonlyMap<string, number> | string> {
  try {
    const signal = AbortSignal.any([AbortSignal.timeout(READ_TIMEOUT_MS), io.signal])
    const headers = { ...callerFieldOf({}, io), 'content-type': 'application/json' }
    const response = await fetch(`${url}/v1/check`, { method: 'POST', headers, body, signal })
    const parsed = answerSchema.safeParse(await response.json())
    if (!parsed.success) return `${url} answered ${response.status}`
    return new Map(
      parsed.data.decisions.flatMap(({ limitName, remaining }) =>
        remaining === null ? [] : [[limitName, remaining] as const],
      ),
    )
  } catch (err) {
    const cause = err instanceof Error && err.cause instanceof Error ? err.cause : err
    return `${url}: ${cause instanceof Error ? cause.message : String(cause)}`
  }
}
