/** What an application embeds: `import { QuotaClient } from 'quotaplane/client'`. */
export type { Answer, LimitHeaders } from './answers.ts'
export { EgressError, type EgressErrorCode } from './egress/egress-error.ts'
export {
  EgressLimiter,
  type EgressOptions,
  type EgressQuota,
  type FetchOptions,
} from './egress/egress-limiter.ts'
export { quotaExpress } from './express.ts'
export { quotaFastify } from './fastify.ts'
export type { LeaseCounts, LeaseOptions } from './leases/leases.ts'
export { QuotaClient, type QuotaClientOptions } from './quota-client.ts'
export { QuotaClientError, type QuotaClientErrorCode } from './quota-error.ts'
export type { Check, Descriptor, NamedCheck } from './requests.ts'
