import { POOL_UNITS } from '../../shared/core/units.ts'
import { type SharesReply, sharesReplySchema } from '../../shared/protocol/admin-replies.ts'
import type { PolicyInput } from '../../shared/protocol/policy.ts'
import type { AdminClient } from './admin-client.ts'
import { ofDomain } from './arguments.ts'

/** Shares of every limit, or of those of one domain. */
export async function readShares(client: AdminClient, domain?: string): Promise<SharesReply> {
  const pages = await client.readPages(ofDomain('/v1/shares', { domain }), sharesReplySchema)
  const [first] = pages
  return {
    at: first?.at ?? '',
    regions: first?.regions ?? [],
    limits: pages.flatMap((page) => page.limits),
    next: null,
  }
}

/**
 * Per region, per cent of the policy's first limit that it may use, for the key with most demand.
 *
 * Empty while admin does not say: a view may be without it, and the measuring goes on.
 */
export async function readSharePercents(
  client: AdminClient,
  policy: PolicyInput,
): Promise<ReadonlyMap<string, number>> {
  const shares = await readShares(client).catch(() => null)
  const limit = shares?.limits.find(
    (candidate) => candidate.domain === policy.domain && candidate.policy === policy.name,
  )
  if (limit === undefined) return new Map()
  const hot = limit.keys[0]?.regions.map(({ region, share }) => [region, share.units] as const)
  const units = new Map<string, number>([...Object.entries(limit.base), ...(hot ?? [])])
  return new Map([...units].map(([region, part]) => [region, (100 * part) / POOL_UNITS]))
}
