import { sql } from 'kysely'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { HistoryWriter } from '../../../services/admin/history/history-writer.ts'
import { runProgram } from '../../../services/cli/program.ts'
import { counterId } from '../../../shared/core/counter-id.ts'
import { ioWith } from '../../unit/cli/fake-io.ts'
import { aRecord, aRow } from './a-record.ts'
import { type Admin, aLimit, startAdmin, TOKEN } from './admin-harness.ts'

const HISTORY = '/v1/usage/history?domain=api&policy=per-tenant'

let admin: Admin
let tenantLimitId: number
let limitId: number
let dayMs = 1_800_000_000_000

beforeAll(async () => {
  admin = await startAdmin()
  await admin.register('us-east-1', 'eu-west-1')
  tenantLimitId = (await admin.create()).body.limits[0].id
  await admin.follower.stepOnce()
})
afterAll(async () => await admin.close())

/** Each test has a day of its own, on which no region has anything to tell yet. */
beforeEach(() => {
  limitId = tenantLimitId
  admin.clock.nowMs = dayMs += 86_400_000
  for (const from of ['us-east-1', 'eu-west-1']) admin.follower.hear(aRecord({ from }))
})

const keyId = (name: string) => counterId({ group: 0, limitId, usageEpoch: 0, name })
const writerOf = ({ db, live, clock }: Admin) =>
  new HistoryWriter({ db, history: live.history, wallMs: () => clock.nowMs })
const read = async (path: string, of = admin) => (await of.call('GET', path)).body

/** Each region tells of one count in the window that runs now. */
function report(to: Admin, admitted: number, from = 'us-east-1', windowMs = 1_000): void {
  const window = Math.floor(to.clock.nowMs / windowMs)
  const usage = [{ limitId, usageEpoch: 0, window, admitted, denied: 1, returned: 0 }]
  to.follower.hear(aRecord({ from, usage }))
}

/** Ten tokens a second in each region. */
function reportTenSeconds(to: Admin): void {
  for (let second = 0; second < 10; second++) {
    for (const region of ['us-east-1', 'eu-west-1']) report(to, 10, region)
    to.clock.nowMs += 1_000
  }
}

describe('the history of a policy', () => {
  it('has seconds by region at once, and says which of them may still grow', async () => {
    report(admin, 5)
    report(admin, 7, 'eu-west-1')
    const { items, from, to } = await read(`${HISTORY}&resolution=second`)
    expect(Date.parse(to) - Date.parse(from)).toBe(60_000)
    expect(items).toEqual([
      {
        startsAt: new Date(admin.clock.nowMs).toISOString(),
        limit: 'per-second',
        limitId,
        isRunning: true,
        total: { admitted: 12, denied: 2, returned: 0, unmet: 0 },
        regions: [
          { region: 'eu-west-1', admitted: 7, denied: 1, returned: 0, unmet: 0 },
          { region: 'us-east-1', admitted: 5, denied: 1, returned: 0, unmet: 0 },
        ],
      },
    ])
    admin.clock.nowMs += 1_500
    for (const from of ['us-east-1', 'eu-west-1']) admin.follower.hear(aRecord({ from }))
    const later = await read(`${HISTORY}&resolution=second&region=eu-west-1`)
    expect(later.items).toMatchObject([{ isRunning: false, total: { admitted: 7 } }])
  })

  it('goes on from memory while Postgres is away, and says that it is partial', async () => {
    const url = admin.url
    const poor = await startAdmin({ url, poolMax: 1, acquireTimeoutMs: 100 })
    poor.clock.nowMs = admin.clock.nowMs
    report(poor, 5)
    let release: () => void = () => {}
    const released = new Promise<void>((resolve) => {
      release = resolve
    })
    const held = poor.db.transaction().execute(async (trx) => {
      await sql`select 1`.execute(trx)
      await released
    })
    const minutes = `${HISTORY}&resolution=minute`
    const partial = await read(minutes, poor)
    expect(partial).toMatchObject({ isPartial: true, items: [{ total: { admitted: 5 } }] })
    // Of what is in memory alone nothing is missing.
    expect((await read(`${HISTORY}&resolution=second`, poor)).isPartial).toBe(false)
    const address = await poor.app.listen({ host: '127.0.0.1', port: 0 })
    const io = ioWith({ env: { QUOTAPLANE_URL: address, QUOTAPLANE_TOKEN: TOKEN } })
    expect(await runProgram(['usage', 'history', 'api/per-tenant'], io)).toBe(0)
    expect(io.written.out).toContain('Postgres does not answer: what it holds is missing.')
    release()
    await held
    expect((await read(minutes, poor)).isPartial).toBe(false)
    await poor.close()
  })

  it('keeps minutes and hours exact over two admins, repeated writes and a restart', async () => {
    const other = await startAdmin({ url: admin.url })
    const writers = [writerOf(admin), writerOf(other)]
    other.clock.nowMs = admin.clock.nowMs
    // The first crashes after forty seconds.
    for (let second = 0; second < 90; second += 10) {
      for (const one of second >= 40 ? [other] : [admin, other]) reportTenSeconds(one)
      // One after the other: the first has the lease, and keeps it until it crashes.
      await writers[0]?.writeOnce()
      await writers[1]?.writeOnce()
    }
    // The lease of the one that crashed goes by the database's clock.
    await sql`update usage_history_writer set lease_until = now() - interval '1 s'`.execute(
      other.db,
    )
    await other.follower.stepOnce()
    await writers[1]?.writeOnce()
    await writers[1]?.writeOnce()
    const restarted = await startAdmin({ url: admin.url })
    restarted.clock.nowMs = other.clock.nowMs
    const minutes = await read(HISTORY, restarted)
    const totals = minutes.items.map((item: { total: { admitted: number } }) => item.total.admitted)
    expect(totals).toEqual([1_200, 600])
    const hours = await read(`${HISTORY}&resolution=hour`, restarted)
    expect(hours.items).toMatchObject([{ total: { admitted: 1_800 } }])
    for (const one of [other, restarted]) await one.close()
  })

  it('tells minutes of a window of a day, whoever wrote the counts before', async () => {
    const day = 86_400_000
    const daily = aLimit({ name: 'daily', algorithm: 'fixed_window', windowMs: day })
    const { body } = await admin.create({ name: 'long', match: [{ key: 'x' }], limits: [daily] })
    limitId = body.limits[0].id
    await admin.follower.stepOnce()
    for (const admitted of [100, 130, 190]) {
      report(admin, admitted, 'us-east-1', day)
      await writerOf(admin).writeOnce()
      await sql`delete from usage_history_writer`.execute(admin.db)
      admin.clock.nowMs += 60_000
    }
    const long = HISTORY.replace('per-tenant', 'long')
    const minutes = await read(long)
    const totals = (items: { total: { admitted: number } }[]) => items.map((i) => i.total.admitted)
    expect(totals(minutes.items)).toEqual([100, 30, 60])
    const from = new Date(admin.clock.nowMs - 120_000).toISOString()
    expect(totals((await read(`${long}&from=${from}`)).items)).toEqual([30, 60])
  })

  it('comes in pages of time', async () => {
    for (let second = 0; second < 5; second++) {
      report(admin, second)
      admin.clock.nowMs += 1_000
    }
    const admitted: number[] = []
    let next = ''
    let pages = 0
    do {
      const page = await read(`${HISTORY}&resolution=second&limit=25${next}`)
      for (const item of page.items) admitted.push(item.total.admitted)
      next = page.next === null ? '' : `&cursor=${page.next}`
      pages++
    } while (next !== '')
    expect(admitted).toEqual([0, 1, 2, 3, 4])
    expect(pages).toBe(3)
  })

  it('of a policy that there is not is a 404, and of a year ago it is empty', async () => {
    const missing = await admin.call('GET', HISTORY.replace('per-tenant', 'none'))
    expect(missing.status).toBe(404)
    const old = await read(`${HISTORY}&from=2020-01-01T00:00:00Z&to=2020-01-02T00:00:00Z`)
    expect(old).toMatchObject({ items: [], next: null })
  })
})

describe('the top keys', () => {
  /** Two looks at three keys, a second apart. */
  function hearKeys(): void {
    const rows = (times: number) => [
      aRow(keyId('tenant=busy'), { admitted: 1_000 * times }),
      aRow(keyId('tenant=denied'), { admitted: 10 * times, denied: 500 * times }),
      aRow(keyId('tenant=short'), { admitted: times, hungry: true, demand: 9_000_000 }),
    ]
    for (const times of [1, 2]) {
      admin.follower.hear(aRecord({ rows: rows(times) }))
      admin.follower.hear(aRecord({ from: 'eu-west-1', rows: rows(times) }))
      admin.clock.nowMs += 1_000
    }
  }

  it('are ranked by use, by denials and by unmet demand, with each region’s part', async () => {
    hearKeys()
    const first = async (by: string) => (await read(`/v1/usage/top?by=${by}`)).items[0]
    expect(await first('use')).toMatchObject({
      rank: 1,
      policy: 'per-tenant',
      key: 'tenant=busy',
      value: 4_000,
      isHungry: false,
      regions: [
        { region: 'eu-west-1', admitted: 2_000 },
        { region: 'us-east-1', admitted: 2_000 },
      ],
    })
    expect(await first('denial')).toMatchObject({ key: 'tenant=denied', value: 2_000 })
    // 9,000 a second are wanted where 6,000 are allowed, in each region for a second.
    expect(await first('unmet')).toMatchObject({
      key: 'tenant=short',
      value: 6_000,
      isHungry: true,
    })
    expect((await read('/v1/usage/top?by=denial&region=mars')).items).toEqual([])
    expect((await read('/v1/usage/top?domain=none')).items).toEqual([])
  })

  it('are found by a part of their name, in any case', async () => {
    hearKeys()
    const found = async (search: string) =>
      (await read(`/v1/usage/top?search=${search}`)).items.map((item: { key: string }) => item.key)
    expect(await found('DENI')).toEqual(['tenant=denied'])
    expect(await found('%3Dnobody')).toEqual([])
  })

  it('come in pages that neither repeat nor skip a key', async () => {
    hearKeys()
    const keys: string[] = []
    let path = '/v1/usage/top?limit=1'
    for (let page = 0; page < 3; page++) {
      const { items, next } = await read(path)
      expect(items[0].rank).toBe(page + 1)
      keys.push(items[0].key)
      path = `/v1/usage/top?limit=1&cursor=${next}`
      if (page === 2) expect(next).toBeNull()
    }
    expect(keys).toEqual(['tenant=busy', 'tenant=denied', 'tenant=short'])
  })

  it('have a history of their own', async () => {
    hearKeys()
    const { items, key } = await read(`${HISTORY}&resolution=second&key=tenant%3Ddenied`)
    expect(key).toBe('tenant=denied')
    const second = { total: { admitted: 20, denied: 1_000 } }
    expect(items).toMatchObject([second, second])
  })
})

describe('shares', () => {
  it('name each loan with its deadline, and who is hungry', async () => {
    const pair = (lend: number, borrow: number) => ({
      lend: [lend, 1] as const,
      borrow: [1, borrow, 0] as const,
    })
    const borrower = aRecord({
      from: 'eu-west-1',
      pairs: { 'us-east-1': pair(0, 5) },
      rows: [
        aRow(keyId('tenant=acme'), { hungry: true, gaveBack: { 'us-east-1': [1, 50_000] } }),
        aRow(keyId('tenant=calm')),
      ],
    })
    admin.follower.hear(borrower)
    const sentMs = admin.clock.nowMs
    admin.clock.nowMs += 400
    const lent = { 'eu-west-1': [1, 250_000, 50_000] as const }
    admin.follower.hear(
      aRecord({
        pairs: { 'eu-west-1': pair(5, 0) },
        acks: { 'eu-west-1': borrower.mark },
        rows: [aRow(keyId('tenant=acme'), { lent })],
      }),
    )
    const { limits } = await read('/v1/shares?hungry=true&policy=per-tenant')
    expect(limits[0].keys).toHaveLength(1)
    expect(limits[0].keys[0]).toMatchObject({
      key: 'tenant=acme',
      loans: [
        {
          lender: 'us-east-1',
          borrower: 'eu-west-1',
          units: 200_000,
          tokens: 2_000,
          deadline: new Date(sentMs + 10_000).toISOString(),
        },
      ],
    })
    const keysOf = async (key: string) =>
      (await read(`/v1/shares?policy=per-tenant&key=${key}`)).limits[0].keys
    expect(await keysOf('tenant%3Dcalm')).toMatchObject([{ key: 'tenant=calm' }])
    expect(await keysOf('tenant%3Dnobody')).toEqual([])
  })
})

describe('lags', () => {
  it('tell for each pair how old what one has of the other is, and how each region does', async () => {
    const first = aRecord()
    admin.follower.hear(first)
    admin.clock.nowMs += 1_000
    admin.follower.hear(aRecord())
    admin.clock.nowMs += 200
    const rows = [aRow(keyId('tenant=acme'), { hungry: true })]
    admin.follower.hear(aRecord({ from: 'eu-west-1', acks: { 'us-east-1': first.mark }, rows }))
    admin.clock.nowMs += 300
    const { pairs, regions, admin: self } = await read('/v1/lags')
    expect(self).toEqual({ bus: 'down', database: 'up' })
    expect(pairs).toMatchObject([
      { from: 'eu-west-1', to: 'us-east-1', lagMs: null },
      { from: 'us-east-1', to: 'eu-west-1', lagMs: 1_200, ageMs: 300 },
    ])
    expect(regions).toMatchObject([
      { region: 'eu-west-1', isReporting: true, store: 'up', bus: 'up', hungryKeys: 1 },
      { region: 'us-east-1', isReporting: true, ageMs: 500, hungryKeys: 0 },
    ])
  })

  it('tell what the leading daemon of a region found when it audited all of them', async () => {
    const facts = { version: '0.1.0', sentAtMs: 0, redis: null, natsVersion: null, peers: [] }
    const tell = (daemon: string, isLeading: boolean, overAdmitted: number): void =>
      admin.facts.hear(
        { ...facts, v: 1, from: 'eu-west-1', daemon, isLeading, overAdmitted, alarms: 0 },
        ['eu-west-1'],
        admin.clock.nowMs,
      )
    tell('leader', true, 7)
    tell('standby', false, 9_000)
    admin.clock.nowMs += 400
    const auditOf = async () =>
      (await read('/v1/lags')).regions.map((region: { audit: unknown }) => region.audit)
    expect(await auditOf()).toEqual([{ overAdmitted: 7, alarms: 0, ageMs: 400 }, null])
    admin.clock.nowMs += 60_000
    expect(await auditOf()).toEqual([null, null])
  })

  it('tell a region that is silent here and heard by others from one that nobody hears', async () => {
    admin.follower.hear(aRecord())
    admin.clock.nowMs += 10_000
    const busOf = async () => (await read('/v1/lags')).regions[1].bus
    expect(await busOf()).toBe('unknown')
    const unheard = aRecord().mark
    admin.follower.hear(aRecord({ from: 'eu-west-1', acks: { 'us-east-1': unheard } }))
    expect(await busOf()).toBe('not-heard-here')
  })
})

describe('the command line', () => {
  let url: string
  beforeAll(async () => {
    url = await admin.app.listen({ host: '127.0.0.1', port: 0 })
  })
  async function run(...args: readonly string[]): Promise<string> {
    const io = ioWith({ env: { QUOTAPLANE_URL: url, QUOTAPLANE_TOKEN: TOKEN } })
    expect(await runProgram(args, io), io.written.err).toBe(0)
    return io.written.out
  }

  it('shows the top keys, the history of a policy, and lags', async () => {
    for (const denied of [0, 1_500]) {
      admin.follower.hear(aRecord({ rows: [aRow(keyId('tenant=acme'), { denied })] }))
      admin.clock.nowMs += 1_000
    }
    report(admin, 1_234)
    const top = await run('usage', 'top', '--by', 'denial', '--policy', 'api/per-tenant')
    expect(top).toMatch(/^api\/per-tenant\/per-second +tenant=acme +\d+ +1,500 +0 +us-east-1$/m)
    const names = await run('usage', 'top', '--domain', 'api', '-o', 'name')
    expect(names).toBe('tenant=acme\n')
    const history = await run('usage', 'history', 'api/per-tenant')
    expect(history).toMatch(/\(going on\) +per-second +together +1,234 +1 +0$/m)
    const lags = await run('region', 'lags', '-o', 'json')
    expect(JSON.parse(lags).pairs).toHaveLength(2)
    expect(await run('region', 'lags')).toMatch(/^us-east-1: last heard .* store up, bus up/m)
  })
})
