import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { type LeaseOptions, Leases } from '../../../client/leases/leases.ts'
import { LEASE_MS } from '../../../shared/core/lease.ts'
import { DRIFT } from '../../../shared/core/ledger/constants.ts'

const CHECK = { domain: 'api', descriptors: [{ tenant: 'acme' }] }
const LIFE_MS = (LEASE_MS * (1 - DRIFT)) / (1 + DRIFT)

interface Sent {
  readonly path: string
  readonly body: Record<string, unknown>
  answer(body: Record<string, unknown>): Promise<void>
  fail(): Promise<void>
}

let sent: Sent[]
let leases: Leases
beforeEach(() => {
  vi.useFakeTimers()
  create()
})
afterEach(() => vi.useRealTimers())

function create(options: LeaseOptions = {}): void {
  sent = []
  const post = (path: string, text: string) =>
    new Promise<{ headers: Record<string, string>; body: unknown }>((resolve, reject) => {
      sent.push({
        path,
        body: JSON.parse(text),
        async answer(body) {
          resolve({ headers: { ratelimit: '"p";r=1000;t=1', 'ratelimit-policy': '"p";q=9' }, body })
          await settle()
        },
        async fail() {
          reject(new Error('gone'))
          await settle()
        },
      })
    })
  leases = new Leases(post, { checksPerSecond: 50, ...options })
}

const settle = () => vi.advanceTimersByTimeAsync(0)

const decision = {
  policy: 'api/p',
  allowed: true,
  limit: 9_000,
  windowMs: 1_000,
  remaining: 1_000,
  resetMs: 5,
  retryAfterMs: null,
  limitName: 'l',
  descriptor: 0,
}
let ids = 0
const granted = (tokens: number, more = {}) => {
  const id = `id-${++ids}`
  return { region: 'us', revision: 7, tokens, id, lifeMs: LEASE_MS, decision, ...more }
}
const asks = () => sent.filter(({ path }) => path === '/v1/lease')
const returns = () =>
  sent
    .filter(({ path }) => path === '/v1/lease/return')
    .map(({ body }) => [body['id'], body['tokens']])

function last(list = asks()): Sent {
  const found = list.at(-1)
  if (found === undefined) throw new Error('nothing was asked for')
  return found
}

/** Checks until the key is hot; what is asked for then. */
function makeHot(tenant = 'acme'): Sent {
  for (let turn = 0; turn < 10; turn++) leases.take({ ...CHECK, descriptors: [{ tenant }] })
  return last()
}

function takenUntilEmpty(): number {
  let taken = 0
  while (taken < 100_000 && leases.take(CHECK) !== null) taken++
  return taken
}

describe('the leases of a client', () => {
  it('are of keys that are checked often, and each is asked for once at a time', () => {
    for (let turn = 0; turn < 9; turn++) expect(leases.take(CHECK)).toBeNull()
    expect(sent).toEqual([])
    makeHot()
    for (let turn = 0; turn < 50; turn++) expect(leases.take(CHECK)).toBeNull()
    expect(sent.map(({ path, body }) => [path, body['domain'], body['descriptors']])).toEqual([
      ['/v1/lease', 'api', [{ entries: [{ key: 'tenant', value: 'acme' }] }]],
    ])
  })

  it('stay with the key that they are of, though its caller writes to the descriptor later', async () => {
    const entry = { key: 'tenant', value: 'acme' }
    const descriptors = [[entry]]
    for (let turn = 0; turn < 10; turn++) leases.take({ ...CHECK, descriptors })
    await last().answer(granted(40))
    entry.value = 'other'
    expect(leases.take({ ...CHECK, descriptors })).toBeNull()
    await vi.advanceTimersByTimeAsync(80)
    const back = last(sent.filter(({ path }) => path === '/v1/lease/return'))
    expect(back.body['descriptors']).toEqual([{ entries: [{ key: 'tenant', value: 'acme' }] }])
  })

  it('answer as the enforcer would, with what remains after each check', async () => {
    await makeHot().answer(granted(40))
    expect(leases.take({ ...CHECK, cost: 3 })).toEqual({
      allowed: true,
      region: 'us',
      revision: 7,
      degraded: false,
      decisions: [{ ...decision, remaining: 997 }],
      decidedBy: 'lease',
      headers: { ratelimit: '"p";r=997;t=1', 'ratelimit-policy': '"p";q=9' },
    })
    expect(leases.take(CHECK)).toMatchObject({ decisions: [{ remaining: 996 }] })
  })

  it('are void a lease after they were asked for, however late the answer came', async () => {
    const asked = makeHot()
    await vi.advanceTimersByTimeAsync(70)
    await asked.answer(granted(1_000))
    expect(leases.take(CHECK)).not.toBeNull()
    vi.advanceTimersByTime(LIFE_MS - 70 - 1)
    // What is left goes back before its end, so that it is not lost.
    expect(returns()).toEqual([[`id-${ids}`, 999]])
    expect(leases.take(CHECK)).toBeNull()
  })

  it('are void after their time though this process hung, and looked at nothing meanwhile', async () => {
    await makeHot().answer(granted(1_000))
    expect(leases.take(CHECK)).not.toBeNull()
    const now = vi.spyOn(performance, 'now')
    now.mockReturnValue(performance.now() + LIFE_MS)
    expect(leases.take(CHECK)).toBeNull()
    now.mockRestore()
  })

  it('are void when their window ends, which the answer says', async () => {
    await makeHot().answer(granted(1_000, { lifeMs: 8 }))
    expect(leases.take(CHECK)).not.toBeNull()
    vi.advanceTimersByTime(8)
    expect(leases.take(CHECK)).toBeNull()
  })

  it('never last longer than a lease, whatever an answer says', async () => {
    await makeHot().answer(granted(1_000, { lifeMs: 60_000 }))
    vi.advanceTimersByTime(LEASE_MS)
    expect(leases.take(CHECK)).toBeNull()
  })

  it('are not spent when they come after their time, but go back', async () => {
    const asked = makeHot()
    await vi.advanceTimersByTimeAsync(LEASE_MS)
    await asked.answer(granted(50))
    expect(leases.take(CHECK)).toBeNull()
    expect(returns()).toEqual([[`id-${ids}`, 50]])
    // Nor is the next one asked for at once, which would come late too.
    expect(asks()).toHaveLength(1)
  })

  it('are refilled in the background when a fifth is left, and nothing is spent twice', async () => {
    await makeHot().answer(granted(100))
    for (let turn = 0; turn < 79; turn++) leases.take(CHECK)
    expect(asks()).toHaveLength(1)
    leases.take(CHECK)
    expect(asks()).toHaveLength(2)
    await last().answer(granted(30))
    expect(takenUntilEmpty()).toBe(20 + 30)
    expect(leases.counts).toMatchObject({ checks: 130, admitted: 130, granted: 130, returned: 0 })
  })

  it('go back before a dear check where Redis had little left, so that no check is denied what is held here', async () => {
    const short = { decision: { ...decision, remaining: 150 } }
    await makeHot().answer(granted(100, short))
    const first = ids
    for (let turn = 0; turn < 85; turn++) leases.take(CHECK)
    const waiting = last()
    const left = leases.take({ ...CHECK, cost: 60 })
    if (left === null || !('settled' in left)) throw new Error('something goes back')
    let isReady = false
    void left.settled.then(() => {
      isReady = true
    })
    await waiting.answer(granted(30, short))
    expect(returns()).toEqual([
      [`id-${first}`, 15],
      [`id-${ids}`, 30],
    ])
    expect(isReady).toBe(false)
    for (const one of sent.slice(-2)) await one.answer({ outcome: 'returned' })
    expect(isReady).toBe(true)
    // Nor is the next one asked for before the check had its turn.
    expect(asks()).toHaveLength(2)
    await vi.advanceTimersByTimeAsync(20)
    expect(asks()).toHaveLength(3)
  })

  it('stay where Redis had plenty left', async () => {
    await makeHot().answer(granted(100))
    expect(leases.take({ ...CHECK, cost: 101 })).toBeNull()
    expect(leases.take({ ...CHECK, cost: 100 })).not.toBeNull()
  })

  it.each([
    ['several descriptors', { descriptors: [{ tenant: 'acme' }, { tenant: 'b' }] }],
    ['an id', { requestId: 'a' }],
    ['no cost', { cost: 0 }],
    ['a cost that is not valid', { cost: 1.5 }],
    ['a signal that is aborted', { signal: AbortSignal.abort() }],
  ])('answer no check with %s', async (_what, change) => {
    await makeHot().answer(granted(100))
    expect(leases.take({ ...CHECK, ...change })).toBeNull()
  })

  it('go back when their key is idle, and then nothing runs any more', async () => {
    await makeHot().answer(granted(100))
    leases.take(CHECK)
    await vi.advanceTimersByTimeAsync(80)
    expect(returns()).toEqual([[`id-${ids}`, 99]])
    expect(leases.counts.keys).toBe(0)
    expect(vi.getTimerCount()).toBe(0)
  })

  it('go back when an enforcer tells of other policies, also those that were on their way', async () => {
    await makeHot().answer(granted(100))
    const first = ids
    for (let turn = 0; turn < 85; turn++) leases.take(CHECK)
    const waiting = last()
    leases.noteRevision(8)
    expect(leases.take(CHECK)).toBeNull()
    await waiting.answer(granted(30, { revision: 7 }))
    expect(leases.take(CHECK)).toBeNull()
    expect(returns()).toEqual([
      [`id-${first}`, 15],
      [`id-${ids}`, 30],
    ])
  })

  it('go back when the client is closed, also those that come later, and no more are asked for', async () => {
    await makeHot().answer(granted(100))
    const first = ids
    for (let turn = 0; turn < 85; turn++) leases.take(CHECK)
    const waiting = last()
    let isClosed = false
    const closing = leases.close().then(() => {
      isClosed = true
    })
    await waiting.answer(granted(30))
    expect(isClosed).toBe(false)
    expect(returns()).toEqual([
      [`id-${first}`, 15],
      [`id-${ids}`, 30],
    ])
    for (const one of sent.slice(-2)) await one.answer({ outcome: 'returned' })
    await closing
    expect(leases.counts).toMatchObject({ granted: 130, admitted: 85, returned: 45, keys: 0 })
    for (let turn = 0; turn < 50; turn++) expect(leases.take(CHECK)).toBeNull()
    expect(asks()).toHaveLength(2)
    expect(vi.getTimerCount()).toBe(0)
  })

  it('are asked for no more for a while after a failure, by any key', async () => {
    await makeHot().fail()
    for (let turn = 0; turn < 50; turn++) leases.take(CHECK)
    leases.take({ ...CHECK, descriptors: [{ tenant: 'b' }] })
    expect(sent).toHaveLength(1)
    await vi.advanceTimersByTimeAsync(1_000)
    makeHot()
    expect(sent).toHaveLength(2)
    await last().answer({ nonsense: true })
    expect(leases.take(CHECK)).toBeNull()
  })

  it('are not asked for again for a while where a policy gives none, unless policies change', async () => {
    await makeHot().answer({ region: 'us', revision: 7, tokens: 0, reason: 'several_limits' })
    for (let turn = 0; turn < 50; turn++) leases.take(CHECK)
    expect(asks()).toHaveLength(1)
    leases.noteRevision(8)
    leases.take(CHECK)
    expect(asks()).toHaveLength(2)
  })

  it('are not asked for at once again where little is left, so that denied keys cost no requests more', async () => {
    await makeHot().answer(granted(2))
    expect(takenUntilEmpty()).toBe(2)
    for (let turn = 0; turn < 50; turn++) leases.take(CHECK)
    expect(asks()).toHaveLength(1)
  })

  it('are of so many keys at once and no more', async () => {
    create({ keysMax: 3 })
    for (const tenant of ['a', 'b', 'c', 'd', 'e']) makeHot(tenant)
    expect(asks()).toHaveLength(3)
    expect(leases.counts.keys).toBe(3)
  })

  it('refuse options that mean nothing', () => {
    for (const checksPerSecond of [0, -1, Number.NaN]) {
      expect(() => create({ checksPerSecond })).toThrow('leases.checksPerSecond must be above 0')
    }
    for (const keysMax of [0, 1.5, Number.NaN]) {
      expect(() => create({ keysMax })).toThrow('leases.keysMax must be a whole number above 0')
    }
  })
})
