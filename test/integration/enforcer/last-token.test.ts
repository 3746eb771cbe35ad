import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { GrpcListener } from '../../../services/enforcer/enforcer.ts'
import { LEASE_MS, leasedBurst } from '../../../shared/core/lease.ts'
import { ALGORITHMS } from '../../../shared/core/policy.ts'
import { presentClient, type RlsClient } from '../../support/rls-client.ts'
import { aPolicy, startRegion, type TestEnforcer, type TestRegion } from './region.ts'

/** A limit of ten is ten whichever way a check comes in and whatever decides it. */

const CAPACITY = 10
const HOUR_MS = 3_600_000

/** Large enough for blocks, and refilled by less than a token while a test runs. */
const LEASED = { capacity: 300, burst: 300, windowMs: 12 * HOUR_MS } as const
const LEASED_ALGORITHMS = ['token_bucket', 'fixed_window'] as const

let region: TestRegion
let enforcer: TestEnforcer
let listener: GrpcListener
let gateway: RlsClient

const leased = LEASED_ALGORITHMS.map((algorithm) =>
  aPolicy({
    name: `leased-${algorithm.replace('_', '-')}`,
    match: [{ key: `leased ${algorithm}` }],
    limits: [{ algorithm, ...LEASED }],
  }),
)
const policies = ALGORITHMS.map((algorithm) =>
  aPolicy({
    name: algorithm.replace('_', '-'),
    match: [{ key: algorithm }],
    onStoreFailure: 'local',
    limits: [{ algorithm, capacity: CAPACITY, windowMs: HOUR_MS }],
  }),
)

beforeAll(async () => {
  region = await startRegion([...policies, ...leased])
  enforcer = await region.startEnforcer({ deadlineMs: 2_000 })
  listener = await enforcer.listenGrpc('127.0.0.1', 0)
  gateway = presentClient(listener.port)
})
afterAll(async () => {
  gateway.close()
  await listener.drain(1_000)
  await region.stop()
})

async function post(path: string, payload: object) {
  const reply = await enforcer.app.inject({ method: 'POST', url: path, payload })
  return reply.json()
}

interface Said {
  readonly allowed: boolean
  readonly remaining: number
}

const descriptors = (key: string, value: string) => [{ entries: [{ key, value }] }]

/** The ways in, each with what it says of a check. */
const ways: readonly [string, (key: string) => Promise<Said>][] = [
  [
    'HTTP',
    async (key) => {
      const { allowed, decisions } = await post('/v1/check', {
        domain: 'api',
        descriptors: descriptors(key, 'http'),
      })
      return { allowed, remaining: decisions[0].remaining }
    },
  ],
  [
    'HTTP in a batch',
    async (key) => {
      const checks = [{ domain: 'api', descriptors: descriptors(key, 'batch') }]
      const { answer } = (await post('/v1/check/batch', { checks })).answers[0]
      return { allowed: answer.allowed, remaining: answer.decisions[0].remaining }
    },
  ],
  [
    'gRPC',
    async (key) => {
      const call = { domain: 'api', descriptors: descriptors(key, 'grpc') }
      const { overall_code: code, statuses } = await gateway.call(call)
      return { allowed: code === 'OK', remaining: statuses[0]?.limit_remaining ?? -1 }
    },
  ],
  [
    "the gateways' protocol as JSON",
    async (key) => {
      const reply = await post('/json', { domain: 'api', descriptors: descriptors(key, 'rls') })
      const [status] = reply.statuses
      return { allowed: reply.overallCode === 'OK', remaining: status.limitRemaining ?? 0 }
    },
  ],
]

async function expectTen(ask: () => Promise<Said>): Promise<void> {
  const said: Said[] = []
  for (let turn = 0; turn < CAPACITY + 2; turn++) said.push(await ask())
  expect(said.map(({ allowed }) => allowed)).toEqual([
    ...Array<boolean>(CAPACITY).fill(true),
    false,
    false,
  ])
  expect(said.map(({ remaining }) => remaining)).toEqual([9, 8, 7, 6, 5, 4, 3, 2, 1, 0, 0, 0])
}

describe.each(ALGORITHMS)('a limit of ten by %s', (algorithm) => {
  it.each(ways)('is ten over %s (B019)', async (_way, ask) => {
    await expectTen(() => ask(algorithm))
  })
})

describe.each(LEASED_ALGORITHMS)('a limit by %s that is leased', (algorithm) => {
  const most = LEASED.capacity
  // A bucket that has blocks out may hold less, by what it refills while they may be spent.
  const least = algorithm === 'token_bucket' ? leasedBurst(LEASED) : most
  let lessee: TestEnforcer

  beforeAll(async () => {
    lessee = await region.startEnforcer({ deadlineMs: 2_000, leases: true })
  })
  afterAll(() => lessee.close())

  const admittedOf = (said: readonly Said[]): Said[] => said.filter(({ allowed }) => allowed)

  /** Asks for `key` until all is admitted, or for so long that what has not come back of a block never will. */
  async function askAll(key: string): Promise<readonly Said[]> {
    const ask = async (): Promise<Said> => {
      const { answer } = await lessee.check([{ [`leased ${algorithm}`]: key }])
      expect(answer.degraded).toBe(false)
      return { allowed: answer.allowed, remaining: answer.decisions[0]?.remaining ?? -1 }
    }
    const said: Said[] = []
    while (said.length < LEASED.capacity - CAPACITY) {
      said.push(...(await Promise.all(Array.from({ length: 29 }, ask))))
    }
    const endMs = performance.now() + 4 * LEASE_MS
    while (admittedOf(said).length < most && performance.now() < endMs) said.push(await ask())
    await lessee.giveUpLeases()
    for (let turn = 0; turn < 2; turn++) said.push(await ask())
    return said
  }

  it('is admitted to its last token and never beyond (B019)', async () => {
    const spent = () => lessee.series('quotaplane_lease_tokens_total', 'kind="admitted"')
    let isExact = false
    // A block that this process was kept from spending in time is void, so it may need another try on a busy machine.
    for (let attempt = 0; attempt < 20 && !isExact; attempt++) {
      const before = await spent()
      const said = await askAll(`hot ${attempt}`)
      const admitted = admittedOf(said).length
      expect(admitted).toBeLessThanOrEqual(most)
      if (admitted < least || (await spent()) === before) continue
      expect(said.slice(-2)).toEqual(Array(2).fill({ allowed: false, remaining: 0 }))
      isExact = true
    }
    expect(isExact).toBe(true)
  })
})

it.each(ALGORITHMS.filter((one) => one !== 'concurrency'))(
  'a limit of ten by %s is ten in memory, while Redis is away (B019)',
  async (algorithm) => {
    const short = await region.startEnforcer({ deadlineMs: 20 })
    region.redis.pause()
    try {
      // Enforcers share what a region may admit; those of this file that are alive have their parts.
      let admitted = 0
      for (let turn = 0; turn < CAPACITY + 2; turn++) {
        const { answer } = await short.check([{ [algorithm]: 'memory' }])
        expect(answer.degraded).toBe(true)
        admitted += Number(answer.allowed)
      }
      const live = await short.series('quotaplane_live_enforcers')
      expect(admitted).toBe(Math.floor(CAPACITY / Math.max(1, live)))
    } finally {
      region.redis.resume()
      await short.close()
    }
  },
)
