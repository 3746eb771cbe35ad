import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import {
  type Answer,
  type Check,
  QuotaClient,
  type QuotaClientOptions,
} from '../../../client/mod.ts'
import { serve } from '../../unit/client/http-server.ts'
import {
  aPolicy,
  startRegion,
  type TestEnforcer,
  type TestRegion,
  withLimit,
} from '../enforcer/region.ts'

/** Clients that take tokens in blocks, on a real enforcer and Redis. */

const HOUR_MS = 3_600_000
const RATE = 4_000
const BURST = 1_000
/** What is asked for at once; after each the event loop goes round. */
const ROUND = 40

const ofDomain = (domain: string, limit: Parameters<typeof withLimit>[1], more = {}) =>
  aPolicy({ domain, limits: [limit], ...more })
const window = (capacity: number, windowMs = HOUR_MS) =>
  ({ algorithm: 'fixed_window', capacity, windowMs }) as const
const big = ofDomain('big', window(1_000_000))
const POLICIES = [
  big,
  ofDomain('bucket', { capacity: RATE, burst: BURST, windowMs: 1_000 }),
  ofDomain('spare', window(50_000)),
  ofDomain('few', window(4_000)),
  ofDomain('edges', window(400, 1_000)),
  ofDomain('off', { ...window(50_000), leases: 'off' }),
  aPolicy({ domain: 'two', limits: [window(50_000), window(60_000)] }),
]

let region: TestRegion
let enforcer: TestEnforcer
let url: string
/** Paths of the requests that the enforcer got. */
const requests: string[] = []
const clients: QuotaClient[] = []

beforeAll(async () => {
  region = await startRegion(POLICIES)
  enforcer = await region.startEnforcer({ leases: true })
  enforcer.app.server.on('request', ({ url: path }: { url: string }) => requests.push(path))
  url = await enforcer.app.listen({ host: '127.0.0.1', port: 0 })
})
afterEach(async () => {
  await Promise.all([...clients].map(close))
})
afterAll(async () => await region.stop())

function aClient(options: Partial<QuotaClientOptions> = {}): QuotaClient {
  const client = new QuotaClient({ urls: [url], timeoutMs: 5_000, leases: true, ...options })
  clients.push(client)
  return client
}

/** A client closes once. */
async function close(client: QuotaClient): Promise<void> {
  clients.splice(clients.indexOf(client), 1)
  await client.close()
}

const key = (domain: string, tenant: string) => ({ domain, descriptors: [{ tenant }] })
const SECONDS = { timeout: 20_000, interval: 1 }
/** A key that is checked more often is leased here, for a busy machine does not manage many checks. */
const SOONER = { leases: { checksPerSecond: 20 } }
const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve))

/** Checks of `tenant` until `count` were answered. */
async function send(client: QuotaClient, domain: string, tenant: string, count: number) {
  const answers: Answer[] = []
  while (answers.length < count) {
    const round = Array.from({ length: ROUND }, () => client.check(key(domain, tenant)))
    answers.push(...(await Promise.all(round)))
    await turn()
  }
  return answers
}

interface Passed {
  readonly sentMs: number
  readonly toldMs: number
  readonly isLeased: boolean
}

/** Sends `size` checks at once; gives those that passed. */
async function pass(client: QuotaClient, check: Check, size: number): Promise<readonly Passed[]> {
  const sentMs = performance.now()
  const answers = await Promise.all(Array.from({ length: size }, () => client.check(check)))
  const toldMs = performance.now()
  return answers
    .filter(({ allowed }) => allowed)
    .map(({ decidedBy }) => ({ sentMs, toldMs, isLeased: decidedBy === 'lease' }))
}

const admitted = (answers: readonly Answer[]): number => answers.filter((one) => one.allowed).length

/** What Redis has left of a counter, by an enforcer that leases nothing. */
async function left(domain: string, tenant: string): Promise<number> {
  const { answer } = await (await region.startEnforcer()).check(tenant, { domain, cost: 0 })
  return answer.decisions[0]?.remaining ?? Number.NaN
}

const granted = () => enforcer.series('quotaplane_client_lease_tokens_total', 'kind="granted"')

describe('a key that a client checks often', () => {
  it('costs a request for each block and not for each check, at least 95 % fewer, and each counts once', async () => {
    const client = aClient()
    let answers: readonly Answer[] = []
    let sum = 0
    let before = 0
    // On a busy machine blocks end before they are spent, and cost more; in one of these rounds it leaves us alone.
    await expect
      .poll(async () => {
        requests.length = 0
        before = client.leaseCounts?.checks ?? 0
        answers = await send(client, 'big', 'hot', 4_000)
        sum += answers.length
        return requests.length / answers.length
      }, SECONDS)
      .toBeLessThanOrEqual(0.05)
    expect(admitted(answers)).toBe(answers.length)
    const local = answers.filter(({ decidedBy }) => decidedBy === 'lease')
    expect((client.leaseCounts?.checks ?? 0) - before).toBe(local.length)
    expect(local[0]).toMatchObject({
      allowed: true,
      region: 'us-east-1',
      degraded: false,
      decisions: [{ limit: 1_000_000, allowed: true, retryAfterMs: null, descriptor: 0 }],
    })
    // As an enforcer says it, and the remaining falls by what is spent.
    const { ratelimit = '', ...others } = local[0]?.headers ?? {}
    const remaining = local[0]?.decisions[0]?.remaining
    expect(ratelimit).toMatch(new RegExp(`^"[^"]+";r=${remaining};t=\\d+$`))
    expect(others['ratelimit-policy']).toMatch(/^"[^"]+";q=1000000;w=3600$/)
    await close(client)
    await expect.poll(() => left('big', 'hot'), SECONDS).toBe(1_000_000 - sum)
  })

  it('is admitted exactly its limit by many clients, though blocks are out at its end', async () => {
    const many = Array.from({ length: 4 }, () => aClient())
    const all = await Promise.all(many.map((client) => send(client, 'few', 'shared', 1_200)))
    let total = all.map(admitted).reduce((sum, count) => sum + count)
    expect(total).toBeLessThanOrEqual(4_000)
    await Promise.all(many.map(close))
    await enforcer.giveUpLeases()
    const last = aClient({ leases: false })
    while ((await last.check(key('few', 'shared'))).allowed) total++
    expect(total).toBe(4_000)
  })

  it('is never admitted more than burst + rate x time by many clients, in any part of the time (INV-5)', async () => {
    const many = [...Array.from({ length: 4 }, () => aClient(SOONER)), aClient({ leases: false })]
    const passed: Passed[] = []
    const beganMs = performance.now()
    const leased = (): number => passed.filter(({ isLeased }) => isLeased).length
    const isEnough = (): boolean => leased() > 200 && performance.now() > beganMs + 2_000
    const lastMs = beganMs + 15_000
    const hammer = async (client: QuotaClient, number: number): Promise<void> => {
      for (let round = number; !isEnough() && performance.now() < lastMs; round++) {
        // Different sizes and pauses, so that blocks are spent early, late and not at all.
        const size = round % 7 === 0 ? 60 : 5
        passed.push(...(await pass(client, key('bucket', 'hammered'), size)))
        await new Promise((resolve) => setTimeout(resolve, ((round * (number + 3)) % 5) * 7))
      }
    }
    await Promise.all(many.map(hammer))
    const endMs = performance.now()
    expect(leased()).toBeGreaterThan(200)
    for (let fromMs = beganMs - 1; fromMs < endMs; fromMs += 50) {
      const later = passed.filter(({ sentMs }) => sentMs >= fromMs)
      for (let toMs = fromMs + 25; toMs < endMs + 50; toMs += 50) {
        const within = later.filter(({ toldMs }) => toldMs <= toMs).length
        expect(within).toBeLessThanOrEqual(BURST + (RATE * (toMs - fromMs)) / 1_000 + 1)
      }
    }
  })

  it('is never admitted more than its limit in a window, though blocks are out when it ends', async () => {
    const many = Array.from({ length: 3 }, () => aClient(SOONER))
    const passed: Passed[] = []
    const offsetMs = Date.now() - performance.now()
    const beganMs = performance.now()
    const leased = (): number => passed.filter(({ isLeased }) => isLeased).length
    const isEnough = (): boolean => leased() > 50 && performance.now() > beganMs + 2_200
    const trickle = async (client: QuotaClient): Promise<void> => {
      while (!isEnough() && performance.now() < beganMs + 15_000) {
        passed.push(...(await pass(client, key('edges', 'edge'), 2)))
        await turn()
      }
    }
    await Promise.all(many.map(trickle))
    expect(leased()).toBeGreaterThan(50)
    const windowOf = (ms: number): number => Math.floor((ms + offsetMs) / 1_000)
    const windows = new Map<number, number>()
    for (const { sentMs, toldMs } of passed) {
      // Of those that were certainly in one window: the clocks were compared to the millisecond.
      if (windowOf(sentMs - 2) !== windowOf(toldMs + 2)) continue
      windows.set(windowOf(sentMs), (windows.get(windowOf(sentMs)) ?? 0) + 1)
    }
    expect(windows.size).toBeGreaterThanOrEqual(2)
    expect(Math.max(...windows.values())).toBeLessThanOrEqual(400)
  })
})

describe('what a client did not spend', () => {
  it('comes back when it is closed, and the counter then has exactly what was not admitted', async () => {
    const client = aClient()
    const sum = admitted(await send(client, 'spare', 'closed', 2_000))
    await close(client)
    const { granted: taken = 0, returned = 0, admitted: spent = 0 } = client.leaseCounts ?? {}
    expect(taken - returned).toBe(spent)
    await expect.poll(() => left('spare', 'closed'), SECONDS).toBe(50_000 - sum)
    expect(client.leaseCounts?.keys).toBe(0)
  })

  it('comes back when its key is idle, without anybody closing anything', async () => {
    const client = aClient()
    const sum = admitted(await send(client, 'spare', 'idle', 2_000))
    await expect.poll(() => client.leaseCounts?.keys, SECONDS).toBe(0)
    await expect.poll(() => left('spare', 'idle'), SECONDS).toBe(50_000 - sum)
  })

  it('comes back when the policies change, and nothing is admitted under the old ones after an enforcer told of it', async () => {
    const client = aClient()
    await send(client, 'big', 'edited', 1_000)
    const edited = withLimit(big, { capacity: 900_000 })
    await region.write(POLICIES.map((policy) => (policy === big ? edited : policy)))
    const answers = await send(client, 'big', 'edited', 4_000)
    const first = answers.findIndex(({ revision }) => revision === edited.revision)
    expect(first).toBeGreaterThanOrEqual(0)
    const later = answers.slice(first)
    expect(later.every(({ revision }) => revision === edited.revision)).toBe(true)
    expect(later.some(({ decidedBy }) => decidedBy === 'lease')).toBe(true)
    await close(client)
    const { granted: taken = 0, returned = 0, admitted: spent = 0 } = client.leaseCounts ?? {}
    expect(taken - returned).toBe(spent)
    await expect.poll(() => left('big', 'edited'), SECONDS).toBe(900_000 - 1_000 - answers.length)
  })
})

describe('a check that no block covers', () => {
  it('is asked for: a larger one, a named one, a reading one, one of several descriptors', async () => {
    const client = aClient()
    await send(client, 'spare', 'odd', 2_000)
    const plain = key('spare', 'odd')
    const odd = [
      { ...plain, cost: 20_000 },
      { ...plain, cost: 0 },
      { ...plain, requestId: 'r' },
      { ...plain, descriptors: [{ tenant: 'odd' }, { tenant: 'other' }] },
    ]
    for (const check of odd) {
      const answer = await client.check(check)
      expect(answer).toMatchObject({ allowed: true, decidedBy: 'enforcer' })
    }
    const wrong = { ...plain, descriptors: [[null]] } as unknown as typeof plain
    await expect(client.check(wrong)).rejects.toMatchObject({ code: 'QUOTA_CLIENT_INVALID' })
  })

  it('goes on one by one where the policy allows no blocks, and blocks are not asked for again and again', async () => {
    const client = aClient()
    for (const domain of ['off', 'two', 'nowhere']) {
      requests.length = 0
      const answers = await send(client, domain, 'acme', 600)
      expect(answers.every(({ allowed, decidedBy }) => allowed && decidedBy === 'enforcer')).toBe(
        true,
      )
      const asked = requests.filter((path) => path === '/v1/lease').length
      expect(asked).toBeGreaterThanOrEqual(1)
      // It is asked for again after 5 s, which a busy machine may take.
      expect(asked).toBeLessThanOrEqual(3)
    }
  })

  it('goes on one by one where an enforcer has no such route', async () => {
    const answer = JSON.stringify({ allowed: true, region: 'r', revision: 1, decisions: [] })
    const older = await serve((_turn, res, req) => {
      if (req.url === '/v1/check') res.end(answer)
      else res.writeHead(404, { 'content-type': 'application/problem+json' }).end('{"status":404}')
    })
    const client = aClient({ urls: [older.url] })
    const answers = await send(client, 'spare', 'older', 1_000)
    expect(answers.every(({ decidedBy }) => decidedBy === 'enforcer')).toBe(true)
    const asked = older.seen.filter(({ path }) => path === '/v1/lease')
    expect(asked.length).toBeGreaterThanOrEqual(1)
    expect(asked.length).toBeLessThan(10)
    await older.close()
  })

  it('is denied by an enforcer alone once nothing is left, and costs few requests for blocks', async () => {
    const client = aClient()
    await send(client, 'edges', 'denied', 1_000)
    const counted = await enforcer.series('quotaplane_client_leases_total', 'outcome="empty"')
    expect(counted).toBeLessThan(100)
    const last = await client.check({ ...key('edges', 'denied'), cost: 401 })
    expect(last).toMatchObject({ allowed: false, decidedBy: 'enforcer' })
  })
})

describe('a dear check', () => {
  it('is admitted by what Redis and the blocks of its client have together', async () => {
    const client = aClient()
    const sum = admitted(await send(client, 'few', 'dear', 2_000))
    expect(sum).toBe(2_000)
    const dear = await client.check({ ...key('few', 'dear'), cost: 2_000 })
    expect(dear.allowed).toBe(true)
    await close(client)
    expect(client.leaseCounts?.keys).toBe(0)
  })
})

describe('the metrics of an enforcer', () => {
  it('say what clients took in blocks, and count no check that a block answered', async () => {
    const [tokens, checks] = [
      await granted(),
      await enforcer.series('quotaplane_checks_total', '"allowed"'),
    ]
    const client = aClient()
    const answers = await send(client, 'spare', 'counted', 3_000)
    const asked = answers.filter(({ decidedBy }) => decidedBy === 'enforcer').length
    await close(client)
    expect(await enforcer.series('quotaplane_checks_total', '"allowed"')).toBe(checks + asked)
    expect(await granted()).toBe(tokens + (client.leaseCounts?.granted ?? 0))
  })
})
