import fc from 'fast-check'
import { parseList } from 'structured-headers'
import { describe, expect, it } from 'vitest'
import { type Decision, decideWithoutStore } from '../../../shared/core/decision.ts'
import { explainDenial } from '../../../shared/protocol/denial.ts'
import { type LimitWords, limitWords } from '../../../shared/protocol/limit-words.ts'
import {
  DRAFT_HEADERS,
  type HeaderChoice,
  parseHeaderChoice,
  writeRateLimitHeaders,
} from '../../../shared/protocol/rate-limit-headers.ts'
import { aRegionLimit, aRegionPolicy } from '../../support/region-policy.ts'

const ALL: HeaderChoice = { draft: true, triple: true, x: 'seconds' }
const WALL_MS = 1_793_448_000_000

const allowed: Decision = {
  allowed: true,
  reason: null,
  remaining: 4,
  resetMs: 29_400,
  retryAfterMs: null,
}
const denied: Decision = {
  ...allowed,
  allowed: false,
  reason: 'limit',
  remaining: 0,
  retryAfterMs: 1_200,
}

interface Named {
  readonly policy?: string
  readonly limit?: string
  readonly capacity?: number
  readonly windowMs?: number
  readonly isOneOfSeveral?: boolean
}

function wordsOf(named: Named = {}): LimitWords {
  const { policy = 'tenants', limit = 'rate', capacity = 100, windowMs = 60_000 } = named
  const one = aRegionLimit({ name: limit, capacity, windowMs })
  const limits = named.isOneOfSeveral === true ? [one, aRegionLimit({ id: 2 })] : [one]
  return limitWords(aRegionPolicy({ name: policy, limits }), one)
}

function fields(
  decision: Decision,
  options: { choice?: HeaderChoice; words?: readonly LimitWords[]; wallMs?: number } = {},
): Record<string, string> {
  const { choice = ALL, words = [wordsOf()], wallMs = WALL_MS } = options
  const [first] = words
  if (first === undefined) throw new Error('a limit')
  const written: Record<string, string> = {}
  const source = { words, binding: { words: first, decision }, wallMs }
  writeRateLimitHeaders(choice, source, (name, value) => {
    written[name] = value
  })
  return written
}

/** Items of a list as a structured-field parser reads them: the name and its parameters. */
function items(field: string | undefined): [unknown, Record<string, unknown>][] {
  return parseList(field ?? '').map(([name, parameters]) => [name, Object.fromEntries(parameters)])
}

describe('the rate limit header fields', () => {
  it('are those of the draft, of its early versions and the usual ones', () => {
    expect(fields(allowed)).toEqual({
      'ratelimit-policy': '"tenants";q=100;w=60',
      ratelimit: '"tenants";r=4;t=30',
      'ratelimit-limit': '100',
      'ratelimit-remaining': '4',
      'ratelimit-reset': '30',
      'x-ratelimit-limit': '100',
      'x-ratelimit-remaining': '4',
      'x-ratelimit-reset': '30',
    })
  })

  it.each([
    [{ algorithm: 'concurrency', windowMs: 30_000 }, '"tenants";q=5;qu="concurrent-requests"'],
    [{ calendar: { unit: 'month', timeZone: 'UTC' } }, '"tenants";q=5'],
    [{ windowMs: 604_800_000 }, '"tenants";q=5;w=604800'],
  ] as const)('say what is counted, and over what where that has one length', (change, item) => {
    const limit = aRegionLimit({ capacity: 5, ...change })
    const words = limitWords(aRegionPolicy({ limits: [limit] }), limit)
    expect(fields(allowed, { words: [words] })['ratelimit-policy']).toBe(item)
    expect(items(item)).toHaveLength(1)
  })

  it('name every limit that had a say, each once, and the state of the one that binds', () => {
    const minute = wordsOf({ limit: 'minute', isOneOfSeveral: true })
    const day = wordsOf({ limit: 'day', windowMs: 86_400_000, isOneOfSeveral: true })
    const written = fields(denied, { words: [day, minute, day] })
    expect(items(written['ratelimit-policy'])).toEqual([
      ['tenants/day', { q: 100, w: 86_400 }],
      ['tenants/minute', { q: 100, w: 60 }],
    ])
    expect(items(written['ratelimit'])).toEqual([['tenants/day', { r: 0, t: 2 }]])
  })

  it('leave out the window where whole seconds cannot say it (B067)', () => {
    for (const [windowMs, w] of [
      [500, undefined],
      [1_500, undefined],
      [1_000, 1],
    ] as const) {
      const written = fields(allowed, { words: [wordsOf({ windowMs })] })
      expect(items(written['ratelimit-policy'])[0]?.[1]['w']).toBe(w)
    }
  })

  it('can be read whatever a policy is called (B067)', () => {
    const odd = ['a,b', 'q"x', 'back\\slash', 'naïve', '😀', 'a\r\nset-cookie: x', 'x'.repeat(200)]
    for (const policy of odd) {
      const written = fields(allowed, { words: [wordsOf({ policy })] })
      for (const field of [written['ratelimit-policy'], written['ratelimit']]) {
        expect(items(field), policy).toHaveLength(1)
        expect(field).toMatch(/^[ -~]*$/)
      }
    }
  })

  it('can be read whatever the figures and names are, unpaired surrogates included (B067)', () => {
    const figure = fc.integer({ min: 0, max: Number.MAX_SAFE_INTEGER })
    fc.assert(
      fc.property(
        fc.string({ unit: 'binary' }),
        fc.oneof(fc.string(), fc.constant('\ud800')),
        figure,
        figure,
        (policy, limit, capacity, remaining) => {
          const words = [wordsOf({ policy, limit, capacity, isOneOfSeveral: true })]
          const written = fields({ ...allowed, remaining }, { words })
          expect(items(written['ratelimit-policy'])).toHaveLength(1)
          expect(items(written['ratelimit'])).toHaveLength(1)
        },
      ),
      { numRuns: 300 },
    )
  })

  it('say at least a second whenever a check is denied (B058)', () => {
    for (const retryAfterMs of [0.2, 1, 500, 999, 1_000]) {
      expect(items(fields({ ...denied, retryAfterMs })['ratelimit'])[0]?.[1]).toEqual({
        r: 0,
        t: 1,
      })
    }
  })

  it('name one instant of reset while it comes nearer (B062)', () => {
    const choice: HeaderChoice = { draft: false, triple: false, x: 'epoch' }
    const resets = Array.from({ length: 59 }, (_, second) =>
      fields(
        { ...allowed, resetMs: 60_000 - second * 1_000 - 7 },
        { choice, wallMs: WALL_MS + second * 1_000 },
      ),
    )
    expect(new Set(resets.map((written) => written['x-ratelimit-reset']))).toEqual(
      new Set([String(WALL_MS / 1_000 + 60)]),
    )
    const left = Array.from({ length: 60 }, (_, second) =>
      Number(fields({ ...allowed, resetMs: 60_000 - second * 1_000 })['ratelimit-reset']),
    )
    expect(left).toEqual(Array.from({ length: 60 }, (_, second) => 60 - second))
  })

  it('invent nothing while the store does not decide (B070)', () => {
    expect(fields(decideWithoutStore('allow'))).toEqual({
      'ratelimit-policy': '"tenants";q=100;w=60',
      'ratelimit-limit': '100',
      'x-ratelimit-limit': '100',
    })
  })
})

describe('a choice of header fields', () => {
  it.each([
    ['draft', DRAFT_HEADERS],
    ['draft,ratelimit,x-ratelimit', ALL],
    ['ratelimit, x-ratelimit-epoch', { draft: false, triple: true, x: 'epoch' }],
    ['none', { draft: false, triple: false, x: null }],
  ])('is read from %s', (text, choice) => {
    expect(parseHeaderChoice(text)).toEqual(choice)
  })

  it.each(['', 'drafts', 'none,draft', 'x-ratelimit,x-ratelimit-epoch', 'draft,'])(
    'is refused when it says %j',
    (text) => {
      expect(parseHeaderChoice(text)).toBeNull()
    },
  )
})

describe('the detail of a denial', () => {
  it.each([
    [
      { capacity: 100, windowMs: 60_000 },
      30_000,
      '100 requests/minute exceeded. Retry in 30 seconds.',
    ],
    [{ capacity: 1, windowMs: 86_400_000 }, 1, '1 request/day exceeded. Retry in 1 second.'],
    [
      { capacity: 5, windowMs: 120_000 },
      1_500,
      '5 requests/2 minutes exceeded. Retry in 2 seconds.',
    ],
    [{ capacity: 5, windowMs: 250 }, 20, '5 requests/250 ms exceeded. Retry in 1 second.'],
  ])('names the quota and what to do', (named, retryAfterMs, text) => {
    const detail = explainDenial({ ...denied, retryAfterMs }, wordsOf({ policy: 'api', ...named }))
    expect(detail).toBe(`api quota of ${text}`)
  })

  it('never advises to wait for what waiting does not mend (B034)', () => {
    const detail = explainDenial(
      { ...denied, reason: 'cost_exceeds_capacity', retryAfterMs: null },
      wordsOf(),
    )
    expect(detail).toContain('Send a lower cost.')
    expect(detail).not.toContain('Retry')
  })
})
