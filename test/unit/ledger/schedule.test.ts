import fc from 'fast-check'
import { describe, it } from 'vitest'
import { splitBase } from '../../../shared/core/base-split.ts'
import { heldFrom } from '../../../shared/core/ledger/rows.ts'
import type { LedgerLimit, RegionRecord } from '../../../shared/core/ledger/types.ts'
import { POOL_UNITS } from '../../../shared/core/units.ts'
import { aLimit, Bench, KEY } from './bench.ts'

const REGIONS = ['a', 'b', 'c'] as const
type Region = (typeof REGIONS)[number]

/** What may happen next, in any order and any number of times. */
type Command =
  | { readonly kind: 'load'; readonly region: Region; readonly wanted: number }
  | { readonly kind: 'send' | 'tick' | 'limits'; readonly region: Region }
  | { readonly kind: 'deliver'; readonly to: Region; readonly age: number }
  | { readonly kind: 'talk'; readonly region: Region; readonly to: Region }
  | { readonly kind: 'wait'; readonly ms: number }
  | {
      readonly kind: 'restart'
      readonly region: Region
      readonly how: 'kept' | 'doubt' | 'held' | 'lost'
    }
  | { readonly kind: 'epoch'; readonly weights: readonly [number, number, number] }
  | { readonly kind: 'occupied'; readonly is: boolean }

const region = fc.constantFrom(...REGIONS)
const command: fc.Arbitrary<Command> = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({
      kind: fc.constant('load' as const),
      region,
      wanted: fc.constantFrom(0, 10, 400, 2_000),
    }),
  },
  {
    weight: 8,
    arbitrary: fc.record({ kind: fc.constantFrom('send' as const, 'tick' as const), region }),
  },
  { weight: 14, arbitrary: fc.record({ kind: fc.constant('talk' as const), region, to: region }) },
  {
    weight: 6,
    arbitrary: fc.record({
      kind: fc.constant('deliver' as const),
      to: region,
      // The newest records most often, old ones now and then.
      age: fc.oneof(fc.nat({ max: 2 }), fc.nat({ max: 60 })),
    }),
  },
  {
    weight: 3,
    arbitrary: fc.record({
      kind: fc.constant('wait' as const),
      ms: fc.constantFrom(500, 2_000, 9_000, 12_000),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      kind: fc.constant('restart' as const),
      region,
      how: fc.constantFrom('kept' as const, 'doubt' as const, 'held' as const, 'lost' as const),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      kind: fc.constant('epoch' as const),
      weights: fc.tuple(fc.nat({ max: 9 }), fc.nat({ max: 9 }), fc.integer({ min: 1, max: 9 })),
    }),
  },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('limits' as const), region }) },
  {
    weight: 1,
    arbitrary: fc.record({ kind: fc.constant('occupied' as const), is: fc.boolean() }),
  },
)

describe('any schedule of events', () => {
  it.each(['token_bucket', 'fixed_window'] as const)(
    'keeps the shares of a %s within the pool and every loan within what was lent',
    (algorithm) => {
      fc.assert(
        fc.property(
          fc.array(command, { minLength: 40, maxLength: 160, size: 'max' }),
          (commands) => {
            const run = new Run(algorithm)
            for (const one of commands) {
              run.apply(one)
              run.check()
            }
          },
        ),
        { numRuns: 80 },
      )
    },
    60_000,
  )
})

class Run {
  readonly #bench: Bench
  readonly #records: RegionRecord[] = []
  #limit: LedgerLimit
  #adopted = new Set<string>()

  constructor(algorithm: 'token_bucket' | 'fixed_window') {
    const base = splitBase({ a: 50, b: 30, c: 20 }, 1_000)
    this.#limit = aLimit({
      algorithm,
      base,
      windowMs: algorithm === 'fixed_window' ? 5_000 : 1_000,
    })
    this.#bench = new Bench([this.#limit], REGIONS)
    this.#bench.load('c', 10)
    this.#bench.lendToB()
  }

  apply(command: Command): void {
    const bench = this.#bench
    switch (command.kind) {
      case 'load':
        bench.load(command.region, command.wanted, Math.min(command.wanted, 200))
        break
      case 'tick':
        bench.tick(command.region)
        break
      case 'send':
        this.#send(command.region)
        break
      case 'talk':
        bench.hear(command.to, this.#send(command.region))
        break
      case 'limits':
        bench.giveLimits(command.region)
        break
      case 'deliver': {
        const record = this.#records.at(-1 - command.age)
        if (record !== undefined) bench.hear(command.to, record)
        break
      }
      case 'wait':
        bench.nowMs += command.ms
        break
      case 'restart':
        bench.start(
          command.region,
          command.how === 'doubt' ? 'kept' : this.#pastOf(command.region, command.how),
          command.how === 'doubt' || command.how === 'held',
        )
        break
      case 'epoch':
        this.#openEpoch(command.weights)
        break
      case 'occupied':
        bench.isOccupied = command.is
        break
    }
  }

  /** A recovery that a restart interrupts begins anew. */
  #pastOf(of: Region, how: 'kept' | 'held' | 'lost'): 'kept' | 'held' | 'lost' {
    const isRecovering = this.#bench.state(of).recoveringUntilMs !== null
    return how === 'kept' && isRecovering ? 'lost' : how
  }

  #send(from: Region): RegionRecord {
    const record = this.#bench.send(from)
    this.#records.push(record)
    if (record.adopted[1] === this.#limit.epoch) this.#adopted.add(from)
    if (this.#limit.previousBase !== null && this.#adopted.size === REGIONS.length) {
      this.#limit = { ...this.#limit, previousBase: null }
      this.#bench.setLimits([this.#limit])
    }
    return record
  }

  #openEpoch([a, b, c]: readonly [number, number, number]): void {
    if (this.#limit.previousBase !== null) return
    const { base, epoch } = this.#limit
    const next = splitBase({ a, b, c }, 1_000)
    this.#limit = { ...this.#limit, epoch: epoch + 1, previousBase: base, base: next }
    this.#adopted = new Set()
    this.#bench.setLimits([this.#limit])
  }

  check(): void {
    const shares = REGIONS.map((one) => this.#bench.effective(one))
    if (shares.some((share) => share < 0)) throw new Error(`a share is negative: ${shares}`)
    const sum = shares.reduce((all, share) => all + share, 0)
    if (sum > POOL_UNITS) throw new Error(`the shares pass the pool: ${shares}`)
    for (const lender of REGIONS) for (const borrower of REGIONS) this.#checkPair(lender, borrower)
  }

  #checkPair(lender: Region, borrower: Region): void {
    const { keys, pairs } = this.#bench.state(borrower)
    const pair = pairs.get(lender)
    const loan = keys.get(KEY)?.row.borrowed[lender]
    const held = heldFrom(loan, pair, this.#bench.nowMs)
    const isForgetful = pair?.borrow.incarnation !== this.#bench.state(lender).incarnation
    const out = this.#bench.lent(lender, borrower)
    if (!isForgetful && held > out)
      throw new Error(`${borrower} holds ${held} of ${out} of ${lender}`)
  }
}
