import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { ALGORITHMS } from '../../../shared/core/policy.ts'
import { aPolicy, startRegion, type TestEnforcer, type TestRegion } from './region.ts'

/** A limit of ten is ten whichever way a check comes in and whatever decides it. */

const CAPACITY = 10
const HOUR_MS = 3_600_000

let region: TestRegion
let enforcer: TestEnforcer

const policies = ALGORITHMS.map((algorithm) =>
  aPolicy({
    name: algorithm.replace('_', '-'),
    match: [{ key: algorithm }],
    onStoreFailure: 'local',
    limits: [{ algorithm, capacity: CAPACITY, windowMs: HOUR_MS }],
  }),
)

beforeAll(async () => {
  region = await startRegion(policies)
  enforcer = await region.startEnforcer({ deadlineMs: 2_000 })
})
afterAll(() => region.stop())

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
    "the gateways' protocol",
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
