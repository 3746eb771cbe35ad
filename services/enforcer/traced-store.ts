import type { CheckStore, LimitDecision, SoleCheck } from '../../shared/core/ports.ts'
import { traceCalls } from '../../shared/runtime/tracing/calls.ts'
import type { Tracer } from '../../shared/runtime/tracing/tracer.ts'

const CALLS: ReadonlySet<string> = new Set(['check', 'giveBack', 'refund', 'release'])

/**
 * The region's Redis as checks see it, with a span for each call of a traced check: from the asking to the answer,
 * the wait for others of the same script call included.
 */
export function traceStore(store: CheckStore, tracer: Tracer): CheckStore {
  const calls = traceCalls(store, tracer, { names: CALLS, system: 'redis' })
  return {
    ask: (check) => store.ask(tracedCheck(check, tracer)),
    check: (check, version) => calls.check(check, version),
    giveBack: (check, version, atUs) => calls.giveBack(check, version, atUs),
    refund: (check, version, atUs) => calls.refund(check, version, atUs),
    release: (check, version) => calls.release(check, version),
  }
}

function tracedCheck(check: SoleCheck, tracer: Tracer): SoleCheck {
  const around = tracer.current()
  const notes = { 'db.system.name': 'redis', 'db.operation.name': 'check' }
  const span = tracer.begin({ name: 'redis check', kind: 'client', notes })
  if (around === null || span === null) return check
  const { group, target, cost, version } = check
  return {
    group,
    target,
    cost,
    version,
    // The reply is read for many checks at once, in nobody's span.
    decided(decision: LimitDecision, atUs: number) {
      span.end()
      tracer.inside(around, () => check.decided(decision, atUs))
    },
    failed(err: unknown) {
      span.end(err)
      tracer.inside(around, () => check.failed(err))
    },
  }
}
