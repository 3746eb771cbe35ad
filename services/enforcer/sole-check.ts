/**
 * The way of most checks: one descriptor that one limit governs and nothing else.
 *
 * One object is asked of the store, is told of the decision, and makes the verdict; there is no promise between, and
 * none of the lists that a check of several parts needs. Whatever is out of the ordinary (an outage, newer policies)
 * goes on by the way of all other checks.
 */
import type { PolicyIndex } from '../../shared/core/policy-index.ts'
import type { CheckTarget, GroupCheck, LimitDecision, SoleCheck } from '../../shared/core/ports.ts'
import { conclude, type Verdict } from './conclude.ts'
import { countDecision, type DegradedReason } from './metrics.ts'
import type { Ask } from './parts.ts'
import type { EnforcedLimit, Route, SoleRoute } from './route.ts'
import {
  asNominal,
  type DecideContext,
  type Decided,
  decideOtherwise,
  type GroupPart,
  reasonOf,
} from './slot-group.ts'
import type { Watched } from './watch.ts'

/** Who waits for a verdict. Exactly one of them is called, once. */
export interface VerdictWaiter {
  readonly resolve: (verdict: Verdict) => void
  readonly reject: (err: unknown) => void
}

/** What a promise is settled with; of a class, so that the engine does not take it for long-lived by where it is made. */
export class PromisedVerdict implements VerdictWaiter {
  readonly resolve: (verdict: Verdict) => void
  readonly reject: (err: unknown) => void

  constructor(resolve: (verdict: Verdict) => void, reject: (err: unknown) => void) {
    this.resolve = resolve
    this.reject = reject
  }
}

/** A check that can go this way, and where it leads. */
export interface SoleAsk {
  readonly ask: Ask
  readonly index: PolicyIndex
  readonly route: Route
  readonly sole: SoleRoute
}

/** Where `ask` leads under `index` if it can go this way, else null. */
export function soleRoute(context: DecideContext, index: PolicyIndex, ask: Ask): Route | null {
  const { descriptors } = ask
  // By index: taking an array apart costs a part of what a leased check does.
  const descriptor = descriptors[0]
  if (descriptor === undefined || descriptors.length > 1 || ask.terms !== undefined) return null
  const route = context.routes.find(index, ask.domain, descriptor, ask.requestId)
  return route.sole === null ? null : route
}

/** Has the store decide, unless it is known to deny still. Out of no lease. */
export function askSole(context: DecideContext, sole: SoleAsk, waiter: VerdictWaiter): void {
  const check = new AskedSole(context, sole, waiter)
  const { denied } = context
  if (denied !== undefined) {
    const kept = denied.size === 0 ? null : denied.take(check.asGroup(), check.version)
    const said = kept?.decisions[0]
    if (kept !== null && said !== undefined) {
      check.tell(said, kept.atUs)
      return
    }
    check.sentMs = denied.sentMs()
  }
  const round = context.guard.enter()
  if (round === null) {
    check.decideWithout('store_skipped')
    return
  }
  check.round = round
  context.leases?.watchOne(check)
  context.store.ask(check)
}

/** What the one limit of a check said, in the words of its callers; counts it. */
export function decidedSole(
  context: DecideContext,
  limit: EnforcedLimit,
  said: LimitDecision,
): Decided {
  const decision = asNominal(said, limit.limit.nominal)
  countDecision(limit.cells, decision, null)
  context.metrics.checks[decision.allowed ? 'allowed' : 'denied'].count++
  return { limit, position: 0, decision, degraded: null }
}

/** The verdict of a check that one limit decided at `atUs`. */
export class SoleVerdict implements Verdict {
  readonly allowed: boolean
  readonly revision: number
  readonly degraded = false
  readonly decided: readonly Decided[]
  readonly watched: readonly Watched[] = NONE_WATCHED
  readonly unlimited: readonly number[] = NONE_UNLIMITED
  readonly unmatched = false
  readonly admittedAtUs: number | null

  constructor(one: Decided, atUs: number | null, revision: number) {
    const { allowed } = one.decision
    this.allowed = allowed
    this.revision = revision
    this.decided = [one]
    this.admittedAtUs = allowed ? atUs : null
  }
}

const NONE_WATCHED: readonly Watched[] = []
const NONE_UNLIMITED: readonly number[] = []

/** Plain fields: one of these is made for each check. */
class AskedSole implements SoleCheck {
  readonly group: number
  readonly target: CheckTarget
  readonly cost: number
  readonly version: number
  /** Of the guard. */
  round = 0
  sentMs = 0
  readonly context: DecideContext
  readonly ask: Ask
  readonly index: PolicyIndex
  readonly route: Route
  readonly limit: EnforcedLimit
  readonly waiter: VerdictWaiter

  // What `asked` names is taken out of it, so that it need not be made at all.
  constructor(context: DecideContext, asked: SoleAsk, waiter: VerdictWaiter) {
    const { ask, index, route, sole } = asked
    this.group = route.group
    this.target = sole.target
    this.cost = ask.cost
    this.version = index.version
    this.context = context
    this.ask = ask
    this.index = index
    this.route = route
    this.limit = sole.limit
    this.waiter = waiter
  }

  decided(said: LimitDecision, atUs: number): void {
    const { context, version, sentMs } = this
    context.guard.succeeded(this.round)
    if (!said.allowed) {
      context.denied?.note(this.asGroup(), { atUs, decisions: [said] }, { version, sentMs })
    }
    this.tell(said, atUs)
  }

  tell(said: LimitDecision, atUs: number): void {
    const { context, limit, index, waiter } = this
    const one = decidedSole(context, limit, said)
    waiter.resolve(new SoleVerdict(one, atUs, index.revision))
  }

  asGroup(): GroupCheck {
    const { group, target, cost } = this
    return { group, targets: [target], cost }
  }

  failed(err: unknown): void {
    try {
      this.decideWithout(reasonOf(this.context, err, this.round))
    } catch (cause) {
      this.waiter.reject(cause)
    }
  }

  decideWithout(answer: DegradedReason): void {
    const { context, waiter, cost } = this
    decideOtherwise(context, this.#part(), { cost, answer }).then(
      (result) => waiter.resolve(conclude(context, [result])),
      waiter.reject,
    )
  }

  #part(): GroupPart {
    const { ask, index, route } = this
    const { domain, cost, requestId } = ask
    const [descriptor] = ask.descriptors
    const routed =
      descriptor === undefined ? [] : [{ position: 0, descriptor, override: null, route }]
    return { domain, index, group: route.group, cost, requestId, routed }
  }
}
