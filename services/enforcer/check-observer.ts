import { bindingOf } from '../../shared/core/binding.ts'
import type { Span, Tracer } from '../../shared/runtime/tracing/tracer.ts'
import type { Verdict } from './conclude.ts'
import type { DecisionLog } from './decision-log.ts'
import type { Ask } from './parts.ts'
import type { VerdictWaiter } from './sole-check.ts'

/** Looks at checks while somebody wants to know: notes on their spans what became of them, and keeps a sample. */
export class CheckObserver {
  readonly log: DecisionLog
  readonly #tracer: Tracer | undefined
  #looking: number

  constructor(log: DecisionLog, tracer: Tracer | undefined) {
    this.log = log
    this.#tracer = tracer
    this.#looking = 0
    this.#look()
  }

  /** 0 while nobody looks; comparing it is then all that a check does for it. */
  get looking(): number {
    return this.#looking
  }

  /** As `DecisionLog.keep`. */
  keep(sample: number, seconds: number): void {
    this.log.keep(sample, seconds)
    this.#look()
  }

  /** Who is to be told of the verdict on `ask` in place of `waiter`. */
  observe(ask: Ask, waiter: VerdictWaiter): VerdictWaiter {
    const { log } = this
    const span = this.#tracer?.current() ?? null
    const isKept = log.wants()
    if (!log.isOn) this.#look()
    if (span === null && !isKept) return waiter
    return {
      resolve(verdict) {
        if (isKept) log.put(ask, verdict)
        if (span !== null) note(span, ask, verdict)
        waiter.resolve(verdict)
      },
      reject: waiter.reject,
    }
  }

  #look(): void {
    this.#looking = this.#tracer !== undefined || this.log.isOn ? 1 : 0
  }
}

/** Names that operators chose, and numbers; nothing of what callers are told apart by. */
function note(span: Span, ask: Ask, verdict: Verdict): void {
  const binding = bindingOf(verdict.decided)
  span.note({
    'quotaplane.domain': ask.domain,
    'quotaplane.cost': ask.cost,
    'quotaplane.allowed': verdict.allowed,
    'quotaplane.degraded': verdict.degraded,
    'quotaplane.policy_revision': verdict.revision,
    ...(binding !== null && {
      'quotaplane.policy': binding.limit.words.policy,
      'quotaplane.limit': binding.limit.limit.name,
      ...(binding.decision.reason !== null && { 'quotaplane.reason': binding.decision.reason }),
    }),
  })
}
