import { QuotaClient } from '../../client/mod.ts'

/** A client that answers keys which it checks often out of tokens that it took ahead. */
export function createLeasingClient(urls: readonly string[]): QuotaClient {
  return new QuotaClient({ urls, leases: true })
}

/** Whether a job of `tenant` may run; `where` says who answered. */
export async function mayRun(client: QuotaClient, tenant: string) {
  const { allowed, decidedBy } = await client.check({ domain: 'jobs', descriptors: [{ tenant }] })
  return { allowed, where: decidedBy }
}
