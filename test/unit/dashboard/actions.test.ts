import { describe, expect, it } from 'vitest'
import { runProgram } from '../../../services/cli/program.ts'
import {
  editLimit,
  emergency,
  moveRegion,
  resetLimit,
  rollBack,
} from '../../../services/dashboard/src/data/actions.ts'
import type { Api } from '../../../services/dashboard/src/data/admin-calls.ts'
import { refusalFor, tokenCommand } from '../../../services/dashboard/src/data/caller.ts'
import { differences, differenceText } from '../../../services/dashboard/src/data/differences.ts'
import { filledHistory, rateOf, spanOf } from '../../../services/dashboard/src/data/history.ts'
import { descriptorOf, tenantOf } from '../../../services/dashboard/src/data/key-entries.ts'
import { counterName } from '../../../shared/core/counter-id.ts'
import type { PolicyReply, RegionReply } from '../../../shared/protocol/admin-replies.ts'
import { emergencyPutSchema } from '../../../shared/protocol/emergency.ts'
import { policyPutSchema } from '../../../shared/protocol/policy.ts'
import type { UsageHistoryReply } from '../../../shared/protocol/reading-replies.ts'
import { ioWith } from '../cli/fake-io.ts'
import { serve } from '../client/http-server.ts'

const limit = {
  name: 'per-second',
  algorithm: 'token_bucket',
  capacity: 100,
  windowMs: 1_000,
  burst: 20,
  burstFollowsCapacity: false,
  shards: 1,
  leases: 'auto',
  split: { eu: 60, us: 40 },
  floorPercent: 2,
}

const policy = {
  domain: 'api',
  name: 'per-tenant',
  description: '',
  match: [{ key: 'tenant' }],
  onStoreFailure: 'allow',
  mode: 'strict',
  objective: 'max-min',
  shadow: false,
  unlimited: false,
  rebase: 'off',
  acceptSmallLimits: false,
  limits: [limit, { ...limit, name: 'other', capacity: 7 }],
  overrideCount: 0,
  id: 1,
  revision: 12,
} as unknown as PolicyReply

const [first] = policy.limits as [PolicyReply['limits'][number]]
const noApi = {} as Api

describe('what the page sends', () => {
  it('edits one limit, on the state that was read, and leaves everything else as it is', async () => {
    const values = { capacity: '250', burst: '', 'split.eu': '50', 'split.us': '50' }
    const change = await editLimit(policy, first).change(values, 'more', noApi)
    expect(change).toMatchObject({ method: 'PUT', ifMatch: 12, reason: 'more' })
    expect(change.path).toBe('/v1/domains/api/policies/per-tenant')
    const parsed = policyPutSchema.parse(change.body)
    expect(parsed.limits[0]).toMatchObject({ capacity: 250, split: { eu: 50, us: 50 } })
    expect(parsed.limits[0]).not.toHaveProperty('burst')
    expect(parsed.limits[1]).toMatchObject({ name: 'other', capacity: 7, burst: 20 })
  })

  it('is an emergency action that admin takes, of every kind', async () => {
    const about = {
      domain: 'api',
      policy: 'per-tenant',
      limit: 'per-second',
      value: 'acme',
      regions: [],
    }
    for (const kind of ['block', 'allow', 'multiply', 'fix', 'freeze', 'pin'] as const) {
      const action = emergency(kind, about)
      const values = Object.fromEntries(
        action.fields.map((field) => [field.name, field.value || '5']),
      )
      const { body } = await action.change(values, 'because', noApi)
      expect(emergencyPutSchema.parse(body)).toMatchObject({
        kind,
        reason: 'because',
        ttlSeconds: 3_600,
      })
    }
  })

  it('of the whole plane is not sent with a token that is limited to domains, which the page names', () => {
    const caller = { actor: 'token:x', scopes: ['quota:admin' as const], domains: ['api'] }
    const ofPlane = [rollBack(3), moveRegion({ id: 'eu', revision: 1 } as RegionReply, 'drain')]
    for (const action of ofPlane) {
      expect(refusalFor(caller, action)).toMatch(/every domain; your token is limited to api/)
      expect(refusalFor({ ...caller, domains: null }, action)).toBeNull()
    }
    expect(refusalFor(caller, { scope: 'quota:write' })).toBeNull()
  })

  it('pins a limit to the parts that are filled in, and to those it has where none is', () => {
    const about = {
      domain: 'api',
      policy: 'p',
      limit: 'per-second',
      value: '',
      regions: ['us', 'eu'],
    }
    const pin = emergency('pin', about)
    expect(pin.fields.map(({ name }) => name)).toEqual(['split.us', 'split.eu', 'for'])
    const split = { 'split.us': '90', 'split.eu': '10', for: '60' }
    const { body } = pin.change(split, 'because', noApi) as { body: unknown }
    expect(emergencyPutSchema.parse(body)).toMatchObject({ split: { us: 90, eu: 10 } })
    const usual = pin.change({ 'split.us': '', 'split.eu': '', for: '60' }, 'because', noApi)
    expect(usual).not.toHaveProperty('body.split')
    expect(emergency('freeze', about).fields.map(({ name }) => name)).toEqual(['for'])
  })

  it('resets one limit of the policy that is shown', () => {
    const policy = { domain: 'api', name: 'a b', revision: 7 } as PolicyReply
    const shown = { name: 'per-second' } as PolicyReply['limits'][number]
    expect(resetLimit(policy, shown).change({}, 'because', noApi)).toEqual({
      method: 'POST',
      path: '/v1/domains/api/policies/a%20b/reset',
      body: { limit: 'per-second' },
      ifMatch: 7,
      reason: 'because',
    })
  })

  it('drains a region for an hour unless somebody chooses otherwise, and resumes it without more words', () => {
    const region = { id: 'eu', revision: 1 } as RegionReply
    const drain = moveRegion(region, 'drain')
    const shown = Object.fromEntries(drain.fields.map(({ name, value }) => [name, value]))
    expect(drain.change(shown, 'because', noApi)).toMatchObject({ body: { ttlSeconds: 3_600 } })
    expect(drain.change({ for: '' }, 'because', noApi)).not.toHaveProperty('body')
    expect(moveRegion(region, 'resume').change({}, 'because', noApi)).not.toHaveProperty('body')
  })

  it('says how a token is made by a command that there is', async () => {
    const plane = await serve((_turn, res) => res.writeHead(400).end('{}'))
    try {
      const [, ...args] = tokenCommand('quota:write').split(' ')
      await runProgram([...args, '--admin-url', plane.url], ioWith({}))
    } finally {
      await plane.close()
    }
    const body = '{"name":"NAME","scopes":["quota:write"]}'
    expect(plane.seen).toEqual([{ method: 'POST', path: '/v1/tokens', body }])
  })

  it('is not sent without its scope, which the page names', () => {
    const caller = { actor: 'token:x', scopes: ['quota:read' as const], domains: null }
    expect(refusalFor(caller, { scope: 'quota:write' })).toMatch(
      /needs the scope quota:write.*has quota:read/,
    )
    expect(refusalFor({ ...caller, scopes: ['quota:admin'] }, { scope: 'quota:write' })).toBeNull()
  })
})

describe('a key’s name', () => {
  const name = counterName(
    [
      { key: 'tenant', value: 'a=b,c' },
      { key: 'route', value: '/x' },
    ],
    () => '',
  )

  it('leads to its tenant and its descriptor, whatever it is made of', () => {
    expect(
      tenantOf({ match: [{ key: 'route', value: '/x' }, { key: 'tenant' }] }, 'route=/x,tenant=q'),
    ).toBe('q')
    expect(
      tenantOf({ match: [{ key: 'tenant' }, { key: 'route' }], overridesBy: 'tenant' }, name),
    ).toBe('a=b,c')
    expect(descriptorOf('tenant=acme')).toBe('tenant=acme')
    expect(descriptorOf('#hash')).toBe('')
    expect(tenantOf({ match: [{ key: 'tenant' }] }, '#hash')).toBe('')
  })
})

describe('history', () => {
  const replyOf = (resolution: string, from: string, to: string, toldUntil: string) =>
    ({
      ...{ resolution, from, to, at: to },
      items: [{ startsAt: '2026-01-01T00:01:00.000Z' }],
      regions: [
        { region: 'eu', asOf: toldUntil, ageMs: 400 },
        { region: 'us', asOf: '2025-12-31T00:00:00.000Z', ageMs: 86_400_000 },
      ],
    }) as unknown as UsageHistoryReply
  const END = '2026-01-01T00:03:00.000Z'

  it('has a bucket for each step, those without use too', () => {
    const filled = filledHistory(replyOf('minute', '2026-01-01T00:00:00.000Z', END, END))
    expect(filled.map(({ item }) => item !== null)).toEqual([false, true, false])
    expect(filled.map((bucket) => rateOf(bucket, 60))).toEqual([1, 1, 1])
  })

  it('is over as much of a bucket as was told, and says nothing of what is too new', () => {
    const told = '2026-01-01T00:02:30.000Z'
    const minutes = filledHistory(replyOf('minute', '2026-01-01T00:01:00.000Z', END, told))
    expect(minutes.map((bucket) => rateOf(bucket, 60))).toEqual([1, 2])
    const early = filledHistory(
      replyOf('minute', '2026-01-01T00:01:00.000Z', END, '2026-01-01T00:02:02.000Z'),
    )
    expect(early.map((bucket) => rateOf(bucket, 60))).toEqual([1, null])
    const seconds = filledHistory(
      replyOf('second', '2026-01-01T00:02:58.000Z', END, '2026-01-01T00:02:59.600Z'),
    )
    expect(seconds.map((bucket) => rateOf(bucket, 7))).toEqual([7, null])
  })

  it('is held only by an address with both ends', () => {
    const from = '2026-01-01T00:00:00.000Z'
    expect(spanOf(new URLSearchParams({ from, to: from }))).toEqual({ from, to: from })
    expect(spanOf(new URLSearchParams({ from }))).toBeNull()
    expect(spanOf(new URLSearchParams({ from, to: 'soon' }))).toBeNull()
  })
})

describe('what a change that no revision tells of was', () => {
  it('is told by the fields that differ, as a diff', () => {
    const before = { a: 1, b: { c: [1, 2] }, gone: 'x' }
    const after = { a: 1, b: { c: [1, 3] }, added: { d: 0 } }
    expect(differenceText(differences(before, after)).split('\n')).toEqual([
      '-b.c.1: 2',
      '+b.c.1: 3',
      '-gone: "x"',
      '+added.d: 0',
    ])
    expect(differenceText(differences(null, { kind: 'block' }))).toBe('+kind: "block"')
    expect(differences(before, before)).toEqual([])
  })
})
