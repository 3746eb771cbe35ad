import { describe, expect, it } from 'vitest'
import { type Known, whyDenied } from '../../../services/dashboard/src/data/why.ts'
import type { EmergencyReply } from '../../../shared/protocol/emergency.ts'

const item = {
  domain: 'api',
  policy: 'per-tenant',
  limit: 'per-second',
  key: 'tenant=acme',
  capacity: 600,
  windowMs: 1_000,
  isHungry: true,
}

const region = (name: string, demandPerSecond: number, tokens: number, isHungry: boolean) => ({
  region: name,
  demandPerSecond,
  isHungry,
  share: { tokens },
})

const known = (changes: object): Known =>
  ({ shares: null, silent: [], actions: [], ...changes }) as unknown as Known

describe('why a key is denied', () => {
  const short = { regions: [region('eu', 300, 180, true), region('us', 10, 420, false)] }

  it('is its limit where all regions together ask for more', () => {
    const shares = { regions: [region('eu', 700, 500, true), region('us', 100, 100, false)] }
    expect(whyDenied(item, known({ shares }))).toBe(
      'All regions together ask for 800 a second, and the limit is 600 a second.',
    )
  })

  it('is the share of a region where the limit has enough', () => {
    expect(whyDenied(item, known({ shares: short }))).toBe(
      'eu asks for 300 a second and has a share of 180; the others lend what they do not need.',
    )
  })

  it('is a cut where the lender, or the region itself, cannot be heard', () => {
    expect(whyDenied(item, known({ shares: short, silent: ['us'] }))).toContain(
      'us cannot lend while cut off',
    )
    expect(whyDenied(item, known({ shares: short, silent: ['eu'] }))).toContain(
      'eu cannot be heard from here',
    )
  })

  it('is an operator where one blocked the tenant or holds loans back', () => {
    const action = {
      domain: 'api',
      policy: 'per-tenant',
      kind: 'block',
      value: 'acme',
      reason: 'scrapes',
    }
    expect(whyDenied(item, known({ actions: [action as EmergencyReply] }))).toBe(
      'blocked by an operator: scrapes',
    )
    const other = { ...action, value: 'cme' } as EmergencyReply
    expect(whyDenied(item, known({ actions: [other] }))).not.toContain('operator')
    const freeze = { ...action, kind: 'freeze', value: undefined } as EmergencyReply
    expect(whyDenied(item, known({ shares: short, actions: [freeze] }))).toContain(
      "An operator's freeze is in force: scrapes.",
    )
  })

  it('is past where the key is not hot any more', () => {
    expect(whyDenied(item, known({}))).toBe(
      'It was over its limit of 600 a second, and is not at present.',
    )
    expect(whyDenied({ ...item, capacity: 0 }, known({}))).toBe('the policy lets nothing through.')
  })
})
