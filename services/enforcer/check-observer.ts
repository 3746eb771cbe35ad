import { bindingOf } from '../../shared/core/binding.ts'
import type { Tracer } from '../../shared/runtime/tracing/tracer.ts'
import type { Verdict } from './conclude.ts'
import type { Ask } from './parts.ts'
import type { VerdictWaiter } from './sole-check.ts'

/** Notes on the spans of checks what became of them. */
export class CheckObserver {
  readonly #tracer: Tracer | undefined
  #looking: number

  constructor(tracer: Tracer | undefined) {
    this.#tracer = tracer
    this.#looking = tracer === undefined ? 0 : 1
  }

  /** 0 while nobody looks; comparing it is then all that a check does for it. */
  get looking(): number {
    return this.#looking
  }

  /** Who is to be told of the verdict on `ask` in place of `waiter`. */
  observe(ask: Ask, waiter: VerdictWaiter): VerdictWaiter {
    const span = this.#tracer?.current() ?? null
    if (span === null) return waiter
    return {
      resolve(verdict) {
        span.note(notesOf(ask, verdict))
        waiter.resolve(verdict)
      },
      reject: waiter.reject,
    }
  }
}

/** Names that operators chose, and numbers; nothing of what callers are told apart by. */
function notesOf(ask: Ask, verdict: Verdict) {
  const binding = bindingOf(verdict.decided)
  return {
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
  }
}
