import { AdminClient } from '../../services/cli/admin-client.ts'
import type { Plane } from '../../services/cli/plane/topology.ts'

export const REGIONS = ['us-east-1', 'eu-west-1', 'ap-south-1'] as const

/** Tokens of one check of the load. */
const COST = 10

const POLICIES = [
  {
    name: 'per-tenant',
    key: 'tenant',
    capacity: 600,
    description: 'What each tenant may ask for.',
  },
  { name: 'logins', key: 'ip', capacity: 60, description: 'Attempts to sign in, by address.' },
] as const

/** Who asks for how much a second where. */
const LOAD = [
  ['us-east-1', 'tenant', 'acme', 300],
  ['eu-west-1', 'tenant', 'acme', 700],
  ['eu-west-1', 'tenant', 'globex', 350],
  ['ap-south-1', 'tenant', 'initech', 150],
  ['us-east-1', 'ip', '203.0.113.7', 200],
] as const

/** Puts a shop with something to be seen on a plane: policies, callers that want too much, and one that is blocked. */
export async function shop(plane: Plane): Promise<() => Promise<void>> {
  const client = new AdminClient({ url: plane.admin.url, token: plane.admin.token })
  for (const { name, key, capacity, description } of POLICIES) {
    const limit = {
      name: 'per-second',
      algorithm: 'token_bucket',
      capacity,
      windowMs: 1_000,
      split: { 'us-east-1': 50, 'eu-west-1': 30, 'ap-south-1': 20 },
    }
    const body = { domain: 'shop', name, description, match: [{ key }], limits: [limit] }
    await client.call({ method: 'POST', path: '/v1/policies', body })
  }
  const block = {
    kind: 'block',
    value: 'mallory',
    reason: 'scrapes since 02:40',
    ttlSeconds: 3_600,
  }
  const body = { ...block, domain: 'shop', policy: 'per-tenant' }
  await client.call({ method: 'POST', path: '/v1/emergency-actions', body })
  const stops = LOAD.map(([region, key, value, perSecond]) =>
    ask({ plane, region, entry: { key, value }, perSecond }),
  )
  return async () => {
    await Promise.all(stops.map((stop) => stop()))
  }
}

function ask(load: {
  readonly plane: Plane
  readonly region: string
  readonly entry: { readonly key: string; readonly value: string }
  readonly perSecond: number
}): () => Promise<void> {
  const { plane, region, entry, perSecond } = load
  const url = plane.regions.find((one) => one.region === region)?.enforcers[0]?.url
  const descriptors = [{ entries: [entry] }]
  const body = JSON.stringify({ domain: 'shop', descriptors, cost: COST })
  const headers = { 'content-type': 'application/json' }
  const waiting = new Set<Promise<unknown>>()
  const timer = setInterval(
    () => {
      const one = fetch(`${url}/v1/check`, { method: 'POST', headers, body }).then((r) => r.text())
      waiting.add(one)
      void one.finally(() => waiting.delete(one))
    },
    (1_000 * COST) / perSecond,
  )
  return async () => {
    clearInterval(timer)
    await Promise.allSettled(waiting)
  }
}
