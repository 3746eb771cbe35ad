import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { aPolicy, startRegion, type TestEnforcer, type TestRegion } from './region.ts'

const limitOf = (capacity: number) =>
  [{ algorithm: 'fixed_window', capacity, windowMs: 3_600_000 }] as const

let region: TestRegion
let enforcer: TestEnforcer

beforeAll(async () => {
  region = await startRegion([
    aPolicy({ name: 'wide', match: [{ key: 'wide' }], limits: limitOf(100) }),
    aPolicy({ name: 'tight', match: [{ key: 'tight' }], limits: limitOf(5) }),
  ])
  enforcer = await region.startEnforcer()
})
afterAll(() => region.stop())

const entry = (key: string, value: string) => ({ entries: [{ key, value }] })

async function batch(checks: readonly object[]) {
  const payload = { checks: checks.map((check) => ({ domain: 'api', ...check })) }
  const reply = await enforcer.app.inject({ method: 'POST', url: '/v1/check/batch', payload })
  return reply.json().answers
}

async function left(key: string, value: string): Promise<number> {
  const [one] = await batch([{ descriptors: [entry(key, value)], cost: 0 }])
  return one.answer.decisions[0].remaining
}

describe('a batch of checks', () => {
  it('decides each for itself, all of its limits or none, whatever becomes of the others', async () => {
    // Twelve of one kind, in different slot groups as a rule, each with more items than its tight limit has tokens.
    for (let pair = 0; pair < 12; pair++) {
      const both = [entry('wide', `v${pair}`), entry('tight', `v${pair}`)]
      const items = [
        { descriptors: both, cost: 3 },
        { descriptors: both, cost: 3 },
        { descriptors: both, cost: -1 },
        { descriptors: [both[0]], cost: 10 },
        { descriptors: both, cost: 2 },
      ]
      const answers = await batch(items)
      expect(answers).toMatchObject([
        { status: 200, answer: { allowed: true } },
        { status: 200, answer: { allowed: false } },
        { status: 400, problem: { errors: [{ field: 'cost' }] } },
        { status: 200, answer: { allowed: true } },
        { status: 200, answer: { allowed: true } },
      ])
      expect([await left('wide', `v${pair}`), await left('tight', `v${pair}`)]).toEqual([85, 0])
    }
  })

  it('decides what asks for one counter in the order of the list', async () => {
    const descriptors = [entry('tight', 'in order')]
    const answers = await batch([4, 2, 1, 1].map((cost) => ({ descriptors, cost })))
    const allowed = answers.map((one: { answer: { allowed: boolean } }) => one.answer.allowed)
    expect(allowed).toEqual([true, false, true, false])
  })
})
