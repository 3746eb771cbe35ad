/** The OpenAPI documents of the services, made without the stores that their routes need to answer. */
import { createAdminApp } from '../../services/admin/app.ts'
import { createAdminMetrics } from '../../services/admin/metrics.ts'
import { OPENAPI } from '../../services/enforcer/openapi.ts'
import { createLogger } from '../../shared/runtime/logger.ts'
import { createRegistry } from '../../shared/runtime/metrics.ts'
import type { OpenApi } from './api-reference.ts'

/** Routes are only declared here, never called, so what they read need not exist. */
const unread = {} as never

async function adminDocument(): Promise<OpenApi> {
  const registry = createRegistry({}, false)
  const app = await createAdminApp({
    db: unread,
    cache: unread,
    live: unread,
    rollouts: unread,
    facts: unread,
    stream: { close: () => {} } as never,
    isBusUp: () => false,
    isDatabaseUp: () => false,
    wallMs: () => 0,
    onChange: () => {},
    access: { planeToken: null, tokens: unread, verifyJwt: null },
    requestsPerSecondMax: 1_000,
    log: createLogger({ service: 'docs', level: 'silent' }),
    registry,
    metrics: createAdminMetrics(registry),
    checks: [],
    isRunning: () => true,
    isPrepared: () => true,
  })
  const { body } = await app.inject('/openapi.json')
  await app.close()
  return JSON.parse(body)
}

export interface Reference {
  readonly path: string
  readonly title: string
  /** Said before the routes. */
  readonly intro: string
  document(): Promise<OpenApi>
}

/** Every page of the reference. */
export const REFERENCES: readonly Reference[] = [
  {
    path: 'docs/reference/api-enforcer.md',
    title: 'Enforcer API',
    intro:
      'What callers of an enforcer send and get. [Gateways](../gateways.md) has Envoy’s gRPC service and the header fields.',
    document: () => Promise.resolve(JSON.parse(JSON.stringify(OPENAPI))),
  },
  {
    path: 'docs/reference/api-admin.md',
    title: 'Admin API',
    intro:
      'Every request but those of health needs `Authorization: Bearer <token>`. Every refusal is a problem document (RFC 9457) with a code, the fields that are wrong and how to mend them. [The admin API](../api.md) says what belongs together.',
    document: adminDocument,
  },
]
