import type { RegionId } from '../../shared/core/policy.ts'
import type { RegionStore } from '../../shared/core/ports.ts'
import type { EnforcerStatus, Refusal, RegionReport } from '../../shared/core/rollout.ts'

/** How often enforcers are looked at while nothing is awaited of them: as often as they speak. */
const LOOK_INTERVAL_MS = 1_000

/** How often while some still has to say that it applies what was written, and for how long after the write. */
const QUICK_LOOK_INTERVAL_MS = 100
const QUICK_FOR_MS = 5_000

/** What a report rests on beside the book. */
export interface RolloutState {
  readonly region: RegionId
  readonly phase: string
  /** False for a daemon that never led, or that another has led after: it knows nothing of the region. */
  readonly hasLed: boolean
  readonly isAwaitingAdmin: boolean
  readonly feed: {
    readonly heard: number
    readonly refused: Refusal | null
    readonly failure: string | null
  }
}

/** Which revision the region's Redis has, and which each of its enforcers applies. */
export class RolloutBook {
  #revision = 0
  #sinceMs: number | null = null
  #writtenAtMs = Number.NEGATIVE_INFINITY
  #dueMs = 0
  #enforcers: readonly EnforcerStatus[] = []
  #unlisted = 0

  /** When enforcers are to be looked at, by the daemon's clock. */
  get dueMs(): number {
    return this.#dueMs
  }

  /** Notes that Redis has the policies of `revision`; `storeMs` is its time. */
  noteWritten(revision: number, at: { readonly storeMs: number; readonly nowMs: number }): void {
    if (revision === this.#revision) return
    this.#revision = revision
    this.#sinceMs = at.storeMs
    this.#writtenAtMs = at.nowMs
    this.#dueMs = at.nowMs
  }

  /** True when an enforcer says other than before. */
  async lookOnce(store: Pick<RegionStore, 'readEnforcers'>, nowMs: number): Promise<boolean> {
    const { enforcers, unlisted } = await store.readEnforcers()
    const isSame = JSON.stringify(enforcers) === JSON.stringify(this.#enforcers)
    this.#enforcers = enforcers
    this.#unlisted = unlisted
    const isQuick = nowMs - this.#writtenAtMs < QUICK_FOR_MS && this.#isAnyAwaited()
    this.#dueMs = nowMs + (isQuick ? QUICK_LOOK_INTERVAL_MS : LOOK_INTERVAL_MS)
    return !isSame
  }

  /** What is to be told; null for a daemon that does not speak for its region. */
  reportOf({ region, phase, hasLed, isAwaitingAdmin, feed }: RolloutState): RegionReport | null {
    const speaks = phase === 'leading' || phase === 'starting' || phase === 'connecting'
    if (!speaks || (phase !== 'leading' && !hasLed)) return null
    return {
      from: region,
      revision: this.#revision,
      sinceMs: this.#sinceMs,
      heard: Math.max(feed.heard, this.#revision),
      refused: feed.refused,
      waitsFor: waitsFor(phase, isAwaitingAdmin, feed.failure),
      enforcers: this.#enforcers,
      unlisted: this.#unlisted,
    }
  }

  #isAnyAwaited(): boolean {
    return this.#enforcers.some(
      ({ revision, refused }) => revision < this.#revision && refused === null,
    )
  }
}

function waitsFor(phase: string, isAwaitingAdmin: boolean, failure: string | null): string | null {
  if (phase !== 'leading') return "the region's Redis does not answer its sync daemon"
  if (isAwaitingAdmin) return 'the region lost its Redis and waits for policies from admin'
  return failure === null ? null : `admin did not answer the region: ${failure}`
}
