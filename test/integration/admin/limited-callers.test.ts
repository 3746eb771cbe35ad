import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { counterId } from '../../../shared/core/counter-id.ts'
import { aRecord, aRow } from './a-record.ts'
import { type Admin, AUTHORIZED, aLimit, startAdmin } from './admin-harness.ts'

let admin: Admin
let limited: Readonly<Record<string, string>>

/** Says what only callers of the other domain may read. */
const SECRET = 'billing/merger: "leaky" is not known'

beforeAll(async () => {
  admin = await startAdmin()
  await admin.register('us-east-1', 'eu-west-1')
  const own = await admin.create()
  const other = await admin.create({ domain: 'billing', name: 'merger', limits: [aLimit()] })
  await admin.follower.stepOnce()
  const { body } = await admin.call('POST', '/v1/tokens', {
    name: 'api-team',
    scopes: ['quota:read'],
    domains: ['api'],
  })
  limited = { authorization: `Bearer ${body.token}` }
  const idOf = (answer: typeof own, name: string) =>
    counterId({ group: 0, limitId: answer.body.limits[0].id, usageEpoch: 0, name })
  const rows = [
    aRow(idOf(own, 'tenant=acme'), { hungry: true }),
    aRow(idOf(other, 'tenant=acme'), { hungry: true }),
    aRow(idOf(other, 'tenant=bravo'), { hungry: true }),
  ]
  admin.follower.hear(aRecord({ rows }))
  const refused = { revision: admin.cache.revision, reason: SECRET }
  const enforcer = { id: 'e', name: 'host:8080', revision: 1, sinceMs: 1_000 }
  admin.rollouts.hear(
    {
      from: 'us-east-1',
      revision: 1,
      sinceMs: admin.clock.nowMs,
      heard: admin.cache.revision,
      refused,
      waitsFor: null,
      enforcers: [{ ...enforcer, refused }],
      unlisted: 0,
    },
    admin.cache.members,
    admin.clock.nowMs,
  )
  admin.facts.hear(
    {
      v: 1,
      from: 'us-east-1',
      daemon: 'leader',
      isLeading: true,
      version: '0.1.0',
      sentAtMs: 0,
      redis: null,
      natsVersion: null,
      peers: [],
      overAdmitted: 3,
      alarms: 1,
    },
    admin.cache.members,
    admin.clock.nowMs,
  )
})
afterAll(async () => await admin.close())

describe('a token that is limited to domains', () => {
  it('sees where a revision is applied and that it is refused, and not why, which may name policies of others', async () => {
    const whole = await admin.call('GET', '/v1/rollouts/latest')
    expect(JSON.stringify(whole.body)).toContain('merger')
    const { status, body } = await admin.call('GET', '/v1/rollouts/latest', undefined, limited)
    expect(status).toBe(200)
    expect(JSON.stringify(body)).not.toMatch(/billing|merger/)
    const [region] = body.regions.filter((one: { region: string }) => one.region === 'us-east-1')
    expect(region).toMatchObject({ state: 'refused', appliedRevision: 1 })
    expect(region.reason).toContain('a token that is not limited to domains')
    expect(region.enforcers).toMatchObject([{ name: 'host:8080', state: 'refused' }])
  })

  it('is told how many keys of its own domains are short, and nothing of what an audit of all found', async () => {
    const whole = await admin.call('GET', '/v1/lags')
    const one = (body: Answered) => body.regions.find(({ region }) => region === 'us-east-1')
    expect(one(whole.body)).toMatchObject({ hungryKeys: 3, audit: { overAdmitted: 3 } })
    const { body } = await admin.call('GET', '/v1/lags', undefined, limited)
    expect(one(body)).toMatchObject({ hungryKeys: 1, audit: null, isReporting: true })
  })

  it('hears no more from the stream', async () => {
    const at = await admin.app.listen({ host: '127.0.0.1', port: 0 })
    const snapshots = await Promise.all(
      [AUTHORIZED, limited].map((headers) => snapshotOf(`${at}/v1/stream?domain=api`, headers)),
    )
    const [whole, own] = snapshots
    expect(JSON.stringify(whole)).toContain('merger')
    expect(JSON.stringify(own)).not.toMatch(/billing|merger/)
    const regionOf = ({ regions }: Snapshot) =>
      regions.regions.find(({ region }) => region === 'us-east-1')
    expect(own && regionOf(own)).toMatchObject({ hungryKeys: 1, audit: null })
    expect(own?.rollout.regions).toHaveLength(2)
  })

  it('reads nothing on any route that names another domain, but what every route shows of regions', async () => {
    const document = (await admin.app.inject({ url: '/openapi.json' })).json()
    const paths = Object.entries<Record<string, unknown>>(document.paths)
      .filter(([path, methods]) => path.startsWith('/v1/') && 'get' in methods)
      .map(([path]) => path)
      .filter((path) => path !== '/v1/stream')
    expect(paths.length).toBeGreaterThan(20)
    const known: Readonly<Record<string, string>> = {
      domain: 'api',
      name: 'per-tenant',
      value: 'acme',
      revision: 'latest',
      number: String(admin.cache.revision),
      id: 'us-east-1',
    }
    for (const path of paths) {
      const url = path.replace(/\{(\w+)\}/g, (_, name: string) => known[name] ?? 'x')
      for (const query of ['', '?domain=api', '?domain=api&policy=per-tenant']) {
        const response = await admin.app.inject({ url: `${url}${query}`, headers: limited })
        expect(response.statusCode, url).toBeLessThan(500)
        expect(response.body, `${url}${query}`).not.toMatch(/billing|merger/)
      }
    }
  })
})

interface Answered {
  readonly regions: readonly { readonly region: string; readonly hungryKeys: number }[]
}

interface Snapshot {
  readonly regions: Answered
  readonly rollout: { readonly regions: readonly object[] }
}

async function snapshotOf(
  url: string,
  headers: Readonly<Record<string, string>>,
): Promise<Snapshot> {
  const response = await fetch(url, { headers })
  let text = ''
  for await (const bytes of response.body ?? []) {
    text += Buffer.from(bytes).toString()
    const data = /^event: snapshot\ndata: (.*)\n\n/m.exec(text)?.[1]
    // Leaving the loop closes the connection.
    if (data !== undefined) return JSON.parse(data)
  }
  throw new Error(`no snapshot in ${text}`)
}
