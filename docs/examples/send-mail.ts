import { EgressLimiter, type QuotaClient } from '../../client/mod.ts'

/** Calls a mail provider that allows 10 calls a second here and 1,000 an hour over all regions. */
export function createMailer(client: QuotaClient, url: string) {
  const limiter = new EgressLimiter({
    perSecond: 10,
    concurrency: 4,
    deadlineMs: 30_000,
    quota: { client, domain: 'egress', descriptor: { provider: 'mail' } },
  })
  return async function sendMail(to: string): Promise<boolean> {
    const response = await limiter.fetch(url, { method: 'POST', body: JSON.stringify({ to }) })
    return response.ok
  }
}
