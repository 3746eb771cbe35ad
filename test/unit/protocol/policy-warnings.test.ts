import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { splitBase } from '../../../shared/core/base-split.ts'
import { shareTokens } from '../../../shared/core/units.ts'
import { policyDocumentSchema, weightSteps } from '../../../shared/protocol/policy.ts'
import { reviewPolicy } from '../../../shared/protocol/policy-warnings.ts'

const SPLIT = { a: 50, b: 30, c: 20 }
const MEMBERS = ['a', 'b', 'c']

/** As saved, whether or not enforcers keep all of it. */
function review(limit: object, policy: object = {}, members = MEMBERS) {
  const document = policyDocumentSchema.parse({
    domain: 'api',
    name: 'p',
    match: [{ key: 'tenant' }],
    limits: [
      { name: 'l', algorithm: 'fixed_window', capacity: 100, windowMs: 60_000, split: SPLIT },
    ],
  })
  const limits = document.limits.map((one) => ({ ...one, ...limit }))
  return reviewPolicy({ ...document, ...policy, limits }, members)
}

describe('reviewPolicy', () => {
  it('has nothing to say of a limit that every region can admit from', () => {
    expect(review({})).toEqual({ warnings: [], refusals: [] })
    expect(review({ capacity: 3, split: { a: 34, b: 33, c: 33 } })).toEqual({
      warnings: [],
      refusals: [],
    })
  })

  it('refuses a strict limit below its regions, says what a caller would see, and names the ways out', () => {
    const { warnings, refusals } = review({ capacity: 2 })
    expect(warnings).toEqual([])
    expect(refusals).toEqual([
      {
        field: 'limits[0].capacity',
        message:
          '2 tokens leave less than one for c: a first request there is denied, and passes about one round trip between regions later if another region has a token to lend',
        fix: 'use mode "eventual", raise the capacity to at least 3, or accept it with "acceptSmallLimits": true',
      },
    ])
  })

  it('warns all the same once that is accepted, and not at all in eventual mode', () => {
    const accepted = review({ capacity: 1 }, { acceptSmallLimits: true })
    expect(accepted.refusals).toEqual([])
    expect(accepted.warnings).toMatchObject([{ field: 'limits[0].capacity' }])
    expect(review({ capacity: 1 }, { mode: 'eventual' })).toEqual({ warnings: [], refusals: [] })
  })

  it('warns of local where memory cannot hold a limit, which then denies every check while Redis is away', () => {
    const denied = [
      { windowMs: 86_400_000 },
      { windowMs: undefined, calendar: { unit: 'month', timeZone: 'UTC' } },
      { algorithm: 'concurrency', windowMs: undefined, holdMs: 1_000 },
    ]
    for (const limit of denied) {
      expect(review(limit, { onStoreFailure: 'local' }).warnings, JSON.stringify(limit)).toEqual([
        {
          field: 'onStoreFailure',
          message:
            '"local" denies every check of this policy while Redis is away, as memory cannot hold l: windows of a calendar or of a day and more, and concurrency',
          fix: 'use "allow" or "deny"',
        },
      ])
      expect(review(limit, { onStoreFailure: 'deny' }).warnings).toEqual([])
    }
    expect(review({ windowMs: 86_399_999 }, { onStoreFailure: 'local' }).warnings).toEqual([])
  })

  it('names of several limits those that local denies, and moving them as a way out', () => {
    const limit = { algorithm: 'fixed_window', capacity: 100, split: SPLIT }
    const limits = [
      { ...limit, name: 'per-minute', windowMs: 60_000 },
      { ...limit, name: 'per-day', windowMs: 86_400_000 },
    ]
    const head = { domain: 'api', name: 'p', match: [{ key: 'tenant' }], onStoreFailure: 'local' }
    const document = policyDocumentSchema.parse({ ...head, limits })
    expect(reviewPolicy(document, MEMBERS).warnings).toMatchObject([
      {
        field: 'onStoreFailure',
        message: expect.stringContaining('memory cannot hold per-day:'),
        fix: 'use "allow" or "deny", or move per-day to a policy of its own',
      },
    ])
  })

  it('only warns where the limit would be enough and its split makes a part too small', () => {
    const { warnings, refusals } = review({ capacity: 10, split: { a: 97, b: 2, c: 1 } })
    expect(refusals).toEqual([])
    expect(warnings).toMatchObject([
      { field: 'limits[0].capacity', message: expect.stringContaining('b, c') },
    ])
  })

  it('looks at the burst of a bucket, which is what can pass at once', () => {
    const bucket = { algorithm: 'token_bucket', capacity: 1_000, burst: 2 }
    expect(review(bucket).refusals).toMatchObject([
      { field: 'limits[0].burst', message: expect.stringContaining('2 tokens leave') },
    ])
  })

  it('warns of regions that a split gives nothing, named or left out', () => {
    const { warnings } = review({ split: { a: 100, b: 0 } })
    expect(warnings).toMatchObject([
      { field: 'limits[0].split', message: expect.stringContaining('gives nothing to b, c') },
    ])
  })

  it('says of a sliding counter what its promise is about, and names what holds (B013)', () => {
    const { warnings, refusals } = review({ algorithm: 'sliding_counter' })
    expect(refusals).toEqual([])
    expect(warnings).toMatchObject([
      { field: 'limits[0].algorithm', fix: expect.stringContaining('"sliding_window"') },
    ])
  })

  it('warns of an eventual window that is over before regions hear of each other', () => {
    expect(review({ windowMs: 5_000 }, { mode: 'eventual' }).warnings).toMatchObject([
      { field: 'limits[0].windowMs' },
    ])
  })

  it('says nothing of a limit that denies all', () => {
    expect(review({ capacity: 0, split: { a: 100 } })).toEqual({ warnings: [], refusals: [] })
  })

  it('never keeps quiet of a region whose part admits nothing, and refuses no limit of a token for each', () => {
    const weights = fc.array(fc.integer({ min: 1, max: 100 }), { minLength: 1, maxLength: 8 })
    fc.assert(
      fc.property(weights, fc.integer({ min: 1, max: 40 }), (parts, capacity) => {
        const sum = parts.reduce((all, part) => all + part, 0)
        const split = Object.fromEntries(parts.map((part, i) => [`r${i}`, (part * 100) / sum]))
        const base = splitBase(weightSteps(split), capacity)
        const hasNone = Object.keys(split).some(
          (region) => shareTokens(capacity, base[region] ?? 0) < 1,
        )
        const { warnings, refusals } = review({ capacity, split }, {}, Object.keys(split))
        expect(warnings.length + refusals.length > 0).toBe(hasNone)
        if (capacity >= parts.length) expect(refusals).toEqual([])
      }),
    )
  })
})
