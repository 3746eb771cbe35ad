import type { z } from 'zod'
import {
  type OverrideReply,
  overrideListSchema,
  type PolicyReply,
  policyListSchema,
} from '../../shared/protocol/admin-replies.ts'
import { type DomainReply, domainListSchema } from '../../shared/protocol/domains.ts'
import type { AdminClient } from './admin-client.ts'
import { ofDomain, policyPath } from './arguments.ts'

export type PolicyPage = z.infer<typeof policyListSchema>

/** Every policy of the plane, in the order in which they were created: of two wildcards the older one governs. */
export async function readAllPolicies(
  client: AdminClient,
  only: { readonly domain?: string | undefined } = {},
): Promise<readonly PolicyReply[]> {
  const pages = await client.readPages(ofDomain('/v1/policies?limit=100', only), policyListSchema)
  return pages.flatMap(({ items }) => items).sort((one, other) => one.id - other.id)
}

/** The domains that somebody has described; the others come with their policies. */
export async function readDescribedDomains(
  client: AdminClient,
  only: { readonly domain?: string | undefined },
): Promise<readonly DomainReply[]> {
  const pages = await client.readPages(ofDomain('/v1/domains?limit=100', only), domainListSchema)
  return pages.flatMap(({ items }) => items).filter(({ revision }) => revision > 0)
}

export async function readOverrides(
  client: AdminClient,
  policy: Pick<PolicyReply, 'domain' | 'name'>,
): Promise<readonly OverrideReply[]> {
  const path = `${policyPath(policy)}/overrides?limit=100`
  const pages = await client.readPages(path, overrideListSchema)
  return pages.flatMap(({ items }) => items)
}

/** What an operator writes of a domain. */
export function documentOfDomain({ domain, description, labels }: DomainReply): object {
  return {
    kind: 'domain',
    domain,
    ...(description !== '' && { description }),
    ...(Object.keys(labels).length > 0 && { labels }),
  }
}
