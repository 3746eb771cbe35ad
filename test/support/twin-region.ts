import {
  allows,
  type Boot,
  describe as describeDecision,
  mostAtOnce,
  type Settled,
  type Share,
} from '../../shared/core/algorithms/algorithm.ts'
import { algorithmOf } from '../../shared/core/algorithms/registry.ts'
import type { ShareOutcome, ShareWrite } from '../../shared/core/ledger/types.ts'
import type { RegionLimit } from '../../shared/core/policy.ts'
import type {
  GroupCheck,
  LimitDecision,
  RefundAnswer,
  RequestCheck,
} from '../../shared/core/ports.ts'
import { TOKENS_MAX } from '../../shared/core/units.ts'
import { TEST_OFFSET_MS } from './test-time.ts'

interface Counter {
  readonly state: unknown
  readonly share: Share | null
  readonly admitted: number
  readonly denied: number
  readonly returned: number
}

/** As in `lua/give-back.lua`. */
const REFUND_MAX_US = 3_600_000_000

const NONE: Counter = { state: null, share: null, admitted: 0, denied: 0, returned: 0 }

/** A region's counters in memory, decided by the pure algorithms: what the scripts must agree with. */
export class TwinRegion {
  boot: Boot = { startUs: 0, recovering: false }
  readonly counters = new Map<string, Counter>()
  readonly #refunded = new Set<string>()

  /** A new boot: shares given before it count no more. */
  begin(boot: Boot): void {
    this.boot = boot
    for (const [id, { state }] of this.counters) this.counters.set(id, { ...NONE, state })
  }

  /** Redis lost everything. */
  wipe(): void {
    this.counters.clear()
    this.#refunded.clear()
  }

  check(check: GroupCheck, nowUs: number): readonly LimitDecision[] {
    const { targets, cost, requestId: holder = '' } = check
    const settled = targets.map(({ limit, counter }) => this.#settle(counter, limit, nowUs))
    const holds = targets.map(
      ({ limit }, index) => algorithmOf(limit).holds?.(at(settled, index), holder) === true,
    )
    const passes = targets.map(
      ({ limit }, index) => allows(at(settled, index), limit, cost) || at(holds, index),
    )
    const isAdmitted = passes.every((pass) => pass)
    return targets.map(({ limit, counter }, index) => {
      const algorithm = algorithmOf(limit)
      const before = at(settled, index)
      const isPassing = at(passes, index)
      let after = before
      if (isAdmitted && cost > 0 && !holds[index]) {
        after = algorithm.take(before, cost, holder)
        this.#put(counter, algorithm.store(after), { admitted: cost })
      }
      if (!isPassing && cost > 0 && cost <= mostAtOnce(limit))
        after = this.#deny(counter, limit, before, cost)
      return describeDecision(algorithm, after, { allowed: isPassing, cost, limit })
    })
  }

  /** Says of each target whether anything was credited. */
  giveBack(check: GroupCheck, atUs: number, nowUs: number): readonly boolean[] {
    const { targets, cost, requestId: holder = '' } = check
    return targets.map(({ limit, counter }) => {
      const algorithm = algorithmOf(limit)
      const given = { cost, atUs, holder }
      const after = algorithm.giveBack(this.#settle(counter, limit, nowUs), given)
      if (after !== null) this.#put(counter, algorithm.store(after), { returned: cost })
      return after !== null
    })
  }

  refund(check: RequestCheck, atUs: number, nowUs: number): RefundAnswer {
    const mark = `${check.group} ${check.requestId}`
    const none = check.targets.map(() => false)
    if (this.#refunded.has(mark)) return { outcome: 'repeated', credited: none }
    if (nowUs - atUs > REFUND_MAX_US) return { outcome: 'too_late', credited: none }
    this.#refunded.add(mark)
    const credited = check.targets.map((target) => {
      if (target.limit.algorithm === 'concurrency') return false
      return this.giveBack({ ...check, targets: [target] }, atUs, nowUs)[0] === true
    })
    return { outcome: 'refunded', credited }
  }

  /** Tokens that each target had free again. */
  release(check: RequestCheck, nowUs: number): readonly number[] {
    return check.targets.map(({ limit, counter }) => {
      const algorithm = algorithmOf(limit)
      const before = this.#settle(counter, limit, nowUs)
      const after = algorithm.release?.(before, check.requestId) ?? null
      if (after === null) return 0
      this.#put(counter, algorithm.store(after), {})
      const { held } = before as unknown as { readonly held: number }
      return held - (after as unknown as { readonly held: number }).held
    })
  }

  writeShare(write: ShareWrite, limit: RegionLimit, nowUs: number): ShareOutcome {
    const algorithm = algorithmOf(limit)
    const before = this.counters.get(write.id) ?? NONE
    const share = shareOf(write)
    const after = algorithm.resize(this.#settle(write.id, limit, nowUs), share, write.shrinks)
    if (after === null) return 'occupied'
    if (share === null && before.state === null) return 'written'
    const counts = before.share === null ? NONE : before
    this.counters.set(write.id, { ...counts, state: algorithm.store(after), share })
    return 'written'
  }

  settled(counter: string, limit: RegionLimit, nowUs: number): Settled {
    return this.#settle(counter, limit, nowUs)
  }

  #settle(counter: string, limit: RegionLimit, nowUs: number): Settled {
    const { state, share } = this.counters.get(counter) ?? NONE
    return algorithmOf(limit).settle(state, { limit, share, boot: this.boot, nowUs })
  }

  #deny(counter: string, limit: RegionLimit, settled: Settled, cost: number): Settled {
    const algorithm = algorithmOf(limit)
    const { share } = this.counters.get(counter) ?? NONE
    const after = settled.astray ? algorithm.heal(settled) : settled
    if (share !== null || settled.astray) {
      this.#put(counter, algorithm.store(after), { denied: cost })
    }
    return after
  }

  #put(
    id: string,
    state: unknown,
    counted: Partial<Record<'admitted' | 'denied' | 'returned', number>>,
  ): void {
    const before = this.counters.get(id) ?? NONE
    const add = (key: 'admitted' | 'denied' | 'returned'): number =>
      Math.min(before[key] + (counted[key] ?? 0), TOKENS_MAX)
    const counts =
      before.share === null
        ? {}
        : { admitted: add('admitted'), denied: add('denied'), returned: add('returned') }
    this.counters.set(id, { ...before, state, ...counts })
  }
}

function shareOf(write: ShareWrite): Share | null {
  if (write.row === null) return null
  const { home, borrowed, expiresAtMs } = write
  const expUs = expiresAtMs === null ? 0 : Math.floor((expiresAtMs + TEST_OFFSET_MS) * 1_000)
  return { home, borrowed, expUs }
}

function at<T>(list: readonly T[], index: number): T {
  const value = list[index]
  if (value === undefined) throw new Error('lists of equal length')
  return value
}
