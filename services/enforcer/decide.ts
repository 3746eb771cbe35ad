/**
 * Decides a check.
 *
 * Each descriptor leads to the limits of one policy. The parts of a request (`parts.ts`) are asked in its order;
 * when one denies, the tokens that earlier parts admitted are given back and later parts are only read, so a denial
 * by one limit leaves the others as they were.
 */
import type { PolicyIndex } from '../../shared/core/policy-index.ts'
import { QuotaError } from '../../shared/errors.ts'
import { conclude, type Verdict } from './conclude.ts'
import type { LeaseBook } from './lease-book.ts'
import { type Ask, type SplitAsk, splitAsk } from './parts.ts'
import type { SoleRoute } from './route.ts'
import {
  type DecideContext,
  decideGroup,
  denialsOf,
  type GroupPart,
  type GroupResult,
  giveBackGroup,
  readGroup,
} from './slot-group.ts'
import {
  askSole,
  decidedSole,
  PromisedVerdict,
  SoleVerdict,
  soleRoute,
  type VerdictWaiter,
} from './sole-check.ts'
import { evaluateWatches } from './watch.ts'

/**
 * The verdict on `ask`.
 *
 * What no policy governs, what is unlimited and what denies all asks no store, so it alone is decided by the policies
 * last polled: a change of that takes effect with the next poll, while any other does with the next check.
 *
 * Throws QUOTA_STORE_UNAVAILABLE while no policies are known: without them nothing says which limits there are
 * or what an operator wants in an outage, so any answer would be made up. Once they are known an outage never
 * throws. QUOTA_OVERLOADED passes through, with nothing spent.
 */
export function decide(context: DecideContext, ask: Ask): Promise<Verdict> {
  return new Promise((resolve, reject) => {
    decideThen(context, ask, new PromisedVerdict(resolve, reject))
  })
}

/** As `decide`, without a promise where none is needed; never throws. */
export function decideThen(context: DecideContext, ask: Ask, waiter: VerdictWaiter): void {
  try {
    const index = context.policies.current()
    const route = index === null ? null : soleRoute(context, index, ask)
    if (index === null || route === null || route.sole === null) {
      decideParts(context, index, ask).then(waiter.resolve, waiter.reject)
      return
    }
    const { sole } = route
    const { leases } = context
    const leased =
      leases === undefined || leases.size === 0
        ? null
        : takeLease(context, leases, { index, sole, cost: ask.cost })
    if (leased === null) askSole(context, { ask, index, route, sole }, waiter)
    else waiter.resolve(leased)
  } catch (err) {
    waiter.reject(err)
  }
}

/**
 * The verdict on a check of one descriptor whose limit is leased; null where more is needed.
 *
 * Neither waits nor asks: it is what makes hot keys cheap.
 */
export function decideAtOnce(context: DecideContext, ask: Ask): Verdict | null {
  const { leases } = context
  const index = context.policies.current()
  if (leases === undefined || leases.size === 0 || index === null) return null
  const route = soleRoute(context, index, ask)
  if (route === null || route.sole === null) return null
  return takeLease(context, leases, { index, sole: route.sole, cost: ask.cost })
}

interface LeasedAsk {
  readonly index: PolicyIndex
  readonly sole: SoleRoute
  readonly cost: number
}

function takeLease(context: DecideContext, leases: LeaseBook, asked: LeasedAsk): Verdict | null {
  const { index, sole, cost } = asked
  const held = leases.takeOne(sole, cost, index.version)
  if (held === null) return null
  const one = decidedSole(context, sole.limit, held.said())
  return new SoleVerdict(one, held.atUs, index.revision)
}

async function decideParts(
  context: DecideContext,
  index: PolicyIndex | null,
  ask: Ask,
): Promise<Verdict> {
  if (index === null) {
    throw new QuotaError('QUOTA_STORE_UNAVAILABLE', 'no policies have been read from Redis yet')
  }
  const { parts, aside } = splitAsk(context, index, ask)
  const [only] = parts
  if (aside.length > 0) return await decideBesides(context, { ask, index, parts, aside })
  const results =
    only !== undefined && parts.length === 1
      ? [await decideGroup(context, only, only.cost)]
      : await decideGroups(context, parts)
  return conclude(context, results)
}

interface SplitCheck extends SplitAsk {
  readonly ask: Ask
  readonly index: PolicyIndex
}

/** A check that not only the store decides: something denies all, is unlimited, or is watched beside it. */
async function decideBesides(context: DecideContext, check: SplitCheck): Promise<Verdict> {
  const { ask, index, parts, aside } = check
  const denied = denialsOf(aside)
  const results =
    denied.length === 0
      ? await decideGroups(context, parts)
      : [
          { allowed: false, decided: denied, answered: null },
          ...(await Promise.all(parts.map((part) => readGroup(context, part, part.cost)))),
        ]
  const verdict = conclude(context, results, aside)
  const { decided } = verdict
  const { domain, requestId } = ask
  const watched = await evaluateWatches(context, { domain, index, requestId, aside, decided })
  return { ...verdict, watched }
}

async function decideGroups(
  context: DecideContext,
  parts: readonly GroupPart[],
): Promise<readonly GroupResult[]> {
  const admitted: { readonly result: GroupResult; readonly cost: number }[] = []
  const giveAllBack = (): Promise<GroupResult[]> =>
    Promise.all(admitted.map(({ result, cost }) => giveBackGroup(context, result, cost)))
  for (const [position, part] of parts.entries()) {
    const result = await decideGroup(context, part, part.cost).catch(async (err: unknown) => {
      await giveAllBack()
      throw err
    })
    if (!result.allowed) {
      const later = parts.slice(position + 1)
      const [returned, read] = await Promise.all([
        giveAllBack(),
        Promise.all(later.map((spared) => readGroup(context, spared, spared.cost))),
      ])
      return [...returned, result, ...read]
    }
    admitted.push({ result, cost: part.cost })
  }
  return admitted.map(({ result }) => result)
}
