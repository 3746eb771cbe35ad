/**
 * What is admitted, over random commands: the real algorithms under shares that move by the rules, with a caller who
 * strikes around each move (INV-5, INV-6; PROTOCOL I5, I6), and the real arithmetic of long windows (INV-10; PROTOCOL I7).
 */
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { Arena, type ArenaLimit, type ArenaSite } from '../../simulation/enforcement/arena.ts'
import type { EnforcementMutant } from '../../simulation/enforcement/counter.ts'
import { ENFORCEMENT_MUTANTS } from '../../simulation/enforcement/mutants.ts'
import { Prng } from '../../simulation/sim/world/prng.ts'
import { Overspent, openStock, type Mutant as StockMutant } from '../../simulation/stock/model.ts'

/** One thing that happens, named so that a failure can be read. */
class Command<Real> implements fc.Command<object, Real> {
  readonly #name: string
  readonly #act: (real: Real) => void

  constructor(name: string, act: (real: Real) => void) {
    this.#name = name
    this.#act = act
  }

  check(): boolean {
    return true
  }

  run(_model: object, real: Real): void {
    this.#act(real)
  }

  toString(): string {
    return this.#name
  }
}

const ALGORITHMS = [
  'token_bucket',
  'leaky_bucket',
  'fixed_window',
  'sliding_window',
  'sliding_log',
] as const satisfies readonly ArenaLimit['algorithm'][]

const numbers = fc.record({
  capacity: fc.constantFrom(5, 20, 60),
  burst: fc.constantFrom(4, 10, 40),
})
const site = fc.nat({ max: 2 })
const siteOf = (arena: Arena, place: number): ArenaSite => {
  const one = arena.sites[place % arena.sites.length]
  if (one === undefined) throw new Error('an arena has at least two regions')
  return one
}
const travelUs = fc.constantFrom(500, 60_000)

function act<Value>(
  name: string,
  value: fc.Arbitrary<Value>,
  run: (arena: Arena, value: Value) => void,
): fc.Arbitrary<Command<Arena>> {
  return value.map(
    (one) =>
      new Command(`${name} ${JSON.stringify(one)}`, (arena) => {
        run(arena, one)
        if (arena.excess > 0)
          throw new Error(`${invariantOf(arena)} is broken: ${arena.excess} tokens too many`)
      }),
  )
}

function invariantOf({ kind }: Arena): string {
  return kind.algorithm === 'token_bucket' || kind.algorithm === 'leaky_bucket' ? 'INV-5' : 'INV-6'
}

const loan = fc.record({
  lender: site,
  further: fc.integer({ min: 1, max: 2 }),
  part: fc.constantFrom(0.3, 0.7, 1),
  travelUs,
  ttlUs: fc.constantFrom(200_000, 2_000_000, 10_000_000),
})

const lend = act('lend', loan, (arena, { lender, further, ...terms }) => {
  const borrower = siteOf(arena, lender + further)
  const from = siteOf(arena, lender)
  if (from !== borrower) arena.lend(from, borrower, terms)
})
const pass = act('pass', fc.constantFrom(0.001, 0.1, 0.5, 1, 2.5), (arena, windows) =>
  arena.pass(arena.windowUs * windows),
)
const drain = act('drain', site, (arena, of) => arena.drain(siteOf(arena, of)))

/** Weighted by being there more than once. */
const ACTS = [
  ...[lend, lend, lend],
  ...[pass, pass],
  ...[drain, drain],
  act('drain all', fc.constant(null), (arena) => arena.drainAll()),
  act('trickle', site, (arena, of) => arena.trickle(siteOf(arena, of), 2)),
  act('pass to the edge', fc.constant(null), (arena) => {
    arena.passToEdge()
  }),
  act('give back', fc.tuple(site, travelUs), (arena, [of, us]) =>
    arena.giveBack(siteOf(arena, of), us),
  ),
  act('lapse', site, (arena, of) => arena.lapse(siteOf(arena, of))),
  act('restart Redis', site, (arena, of) => arena.restart(siteOf(arena, of))),
  act('lose memory', site, (arena, of) => arena.wipe(siteOf(arena, of))),
  act('recover', site, (arena, of) => arena.recover(siteOf(arena, of))),
  act('forget the key', site, (arena, of) => arena.untrack(siteOf(arena, of))),
  act('change limit', numbers, (arena, changed) => arena.change({ ...changed, ...arena.kind })),
]

const arenaRun = fc.record({
  seed: fc.nat({ max: 1_000_000 }),
  regions: fc.constantFrom(2, 3),
  windowMs: fc.constantFrom(1_000, 5_000),
  numbers,
  acts: fc.commands(ACTS, { maxCommands: 60, size: 'max' }),
})

const arenaProperty = (algorithm: ArenaLimit['algorithm'], mutant: EnforcementMutant = {}) =>
  fc.property(arenaRun, ({ seed, regions, windowMs, numbers: given, acts }) => {
    const limit = { algorithm, windowMs, ...given }
    const real = new Arena(limit, regions, new Prng(seed), mutant)
    fc.modelRun(() => ({ model: {}, real }), acts)
  })

const SEARCHES = { numRuns: 3_000, seed: 1, endOnFailure: true } as const

describe('after any moves of shares, restarts and edits', () => {
  it.each(ALGORITHMS)('regions admit no more than one %s would (INV-5, INV-6)', (algorithm) => {
    fc.assert(arenaProperty(algorithm), { numRuns: 100 })
  })

  it.each([
    ['INV-5', 'a share that grows brings its tokens with it'],
    ['INV-5', 'time before a share was written refills under it'],
    ['INV-6', 'a share shrinks below what its window has spent'],
    ['INV-6', 'units of a sliding window come home before it has passed'],
  ])('the same finds out that %s is broken where %s', (invariant, rule) => {
    const broken = ENFORCEMENT_MUTANTS[rule]
    if (broken === undefined) throw new Error(`no mutant ${rule}`)
    const { failed, errorInstance } = fc.check(
      arenaProperty(broken.algorithm, broken.mutant),
      SEARCHES,
    )
    expect([failed, String(errorInstance)]).toEqual([true, expect.stringContaining(invariant)])
  })
})

type Stock = ReturnType<typeof openStock>

const STOCK_ACTS = (
  [
    'spend',
    'spend',
    'spend',
    'ask',
    'answer',
    'receive',
    'open',
    'lose',
    'resplit',
    'fault',
    'serve',
    'pass',
  ] as const
).map((name) => fc.constant(new Command<Stock>(name, ({ acts }) => acts[name]())))

const stockProperty = (mutant: StockMutant | null) =>
  fc.property(
    fc.nat({ max: 1_000_000 }),
    fc.commands(STOCK_ACTS, { maxCommands: 600, size: 'max' }),
    (seed, acts) => {
      fc.modelRun(() => ({ model: {}, real: openStock(seed, mutant) }), acts)
    },
  )

describe('after any questions, answers, losses and boots', () => {
  it('no long window is overspent (INV-10)', () => {
    fc.assert(stockProperty(null), { numRuns: 60 })
  })

  it('the same finds out that it is where what was allotted before a boot counts as unspent', () => {
    const { failed, errorInstance } = fc.check(stockProperty('unknown-as-zero'), SEARCHES)
    expect(failed).toBe(true)
    expect(errorInstance).toBeInstanceOf(Overspent)
  })
})
