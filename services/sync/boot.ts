/**
 * How a session begins: what of the past is known decides what may be used (PROTOCOL 9.4).
 *
 * kept   Redis kept running and served checks: what was read is the truth.
 * held   Redis did not, but this process led without a gap and has the ledger in memory: it is written again.
 * first  The region never had an incarnation: it starts with all that is its own.
 * lost   None of these: a new incarnation, which uses nothing until every loan of the old one has ended.
 */
import { setImmediate as turn } from 'node:timers/promises'
import { unreachable } from '../../shared/core/assert.ts'
import { LOAN_TTL_MS } from '../../shared/core/ledger/constants.ts'
import type { Continuity } from '../../shared/core/ledger/types.ts'
import type { OpenedStore, RegionStore } from '../../shared/core/ports.ts'
import { QuotaError } from '../../shared/errors.ts'
import type { Incarnation, Incarnations } from './incarnations.ts'
import { LEASE_STORE_MS, RENEW_INTERVAL_MS } from './leadership.ts'
import { EMPTY_PLANE, planeOf } from './plane.ts'
import type { PolicyFeed } from './policy-feed.ts'
import type { RegionMemory } from './region-memory.ts'
import { SEQ_RESERVE, Session, type SessionDeps } from './session.ts'
import { pause } from './wakeup.ts'

/**
 * How long a region without memory waits for admin before it takes an incarnation of its own and recovers.
 * Long enough for a plane that starts all at once; without an answer a new region waits LOAN_TTL_MS in vain.
 */
const ADMIN_WAIT_MS = LOAN_TTL_MS / 2

const ADMIN_RETRY_MS = 250

export interface BootDeps extends SessionDeps {
  readonly incarnations: Incarnations
  readonly feed: PolicyFeed
  /** Aborted when the daemon is to stop. */
  readonly signal: AbortSignal
}

/** `kept` and `held` are facts; whether anything else is `first` or `lost` only admin can tell. */
export function pastOf(opened: OpenedStore, memory: RegionMemory): 'kept' | 'held' | 'unknown' {
  const isStoreWhole = opened.scriptsLoaded && opened.incarnation > 0
  if (memory.hasLedger) {
    return isStoreWhole && opened.incarnation === memory.ledger.incarnation ? 'kept' : 'held'
  }
  const isOutranked = opened.incarnation < memory.incarnationHeard
  return isStoreWhole && !opened.recovering && !isOutranked ? 'kept' : 'unknown'
}

/** What a session begins with. */
interface Beginning {
  readonly continuity: Continuity
  readonly incarnation: number
  readonly pairs: OpenedStore['pairs']
  readonly rows: OpenedStore['rows']
  readonly bootedAtStoreMs: number
}

/**
 * Opens `store` under a new fence and starts a session over it. The lease is held, since `ledSinceMs`.
 *
 * Policies that may be used are in force once this resolves; the session brings the rest into force as soon as
 * they come.
 */
export async function startSession(
  deps: BootDeps,
  store: RegionStore,
  ledSinceMs: number,
): Promise<{ readonly session: Session; readonly continuity: Continuity }> {
  const { memory } = deps
  const opened = await store.open(leaseKeeper(deps, store))
  memory.writtenPlane = null
  memory.isServing = false
  const beginning = await begin(deps, store, opened, ledSinceMs)
  const firstSeq = Math.max(opened.seqReserved, memory.ledger.nextSeq)
  await store.reserveSeq(firstSeq + SEQ_RESERVE)
  await bringTokens(memory, store, opened)
  const session = new Session(deps, store, firstSeq + SEQ_RESERVE)
  const { fence, storeOffsetMs } = opened
  memory.stock.beginSession(fence)
  await session.handle({ kind: 'started', ...beginning, fence, firstSeq, storeOffsetMs })
  const mayUsePlane = memory.freshSinceMs === null && memory.plane.revision > 0
  if (mayUsePlane) await session.usePlane(memory.plane)
  return { session, continuity: beginning.continuity }
}

/** Writes the tokens that this process knows, unless Redis has a later reading of them. */
async function bringTokens(
  memory: RegionMemory,
  store: RegionStore,
  opened: OpenedStore,
): Promise<void> {
  const { checkTokens } = memory
  memory.storedTokensAsOfMs = opened.checkTokensAsOfMs
  if (checkTokens === null || checkTokens.asOfMs <= opened.checkTokensAsOfMs) return
  await store.writeCheckTokens(checkTokens)
  memory.storedTokensAsOfMs = checkTokens.asOfMs
}

function begin(
  deps: BootDeps,
  store: RegionStore,
  opened: OpenedStore,
  ledSinceMs: number,
): Beginning | Promise<Beginning> {
  const past = pastOf(opened, deps.memory)
  switch (past) {
    case 'kept':
      return beginKept(deps, opened)
    case 'held':
      return beginHeld(deps, store, opened)
    case 'unknown':
      return beginAnew(deps, store, opened, ledSinceMs)
    default:
      return unreachable(past)
  }
}

function beginKept({ memory, feed }: BootDeps, opened: OpenedStore): Beginning {
  const stored = planeOf(opened.planePolicies, opened.policyRevision, opened.members)
  if (stored.revision > memory.plane.revision) memory.plane = stored
  memory.stock.seed(opened.stock)
  feed.seed(memory.plane)
  const { incarnation, pairs, rows, bootedAtStoreMs } = opened
  return { continuity: 'kept', incarnation, pairs, rows, bootedAtStoreMs }
}

async function beginHeld(
  { memory, clock }: BootDeps,
  store: RegionStore,
  opened: OpenedStore,
): Promise<Beginning> {
  const { incarnation, pairs, keys, recoveringUntilMs } = memory.ledger
  const recovering = recoveringUntilMs !== null
  await store.begin({ incarnation, levels: 'empty', recovering })
  memory.isRecovering = recovering
  const { usage } = await store.collect()
  memory.usage.goOn(memory.ledger, usage)
  const rows = [...keys.values()].map((key) => key.row)
  return {
    continuity: 'held',
    incarnation,
    pairs: Object.fromEntries(pairs),
    rows,
    bootedAtStoreMs: clock.monotonicMs() + opened.storeOffsetMs,
  }
}

async function beginAnew(
  deps: BootDeps,
  store: RegionStore,
  opened: OpenedStore,
  ledSinceMs: number,
): Promise<Beginning> {
  const { memory, feed, clock, incarnations } = deps
  const { incarnation, isFirst } = await nextIncarnation(deps, store, opened)
  if (!isFirst) await keepLease(deps, store, ledSinceMs + LEASE_STORE_MS)
  await store.begin({ incarnation, levels: isFirst ? 'full' : 'empty', recovering: !isFirst })
  incarnations.used()
  const { usage } = await store.collect()
  memory.usage.beginAnew(usage)
  memory.plane = EMPTY_PLANE
  memory.isRecovering = !isFirst
  memory.freshSinceMs = clock.monotonicMs()
  feed.wantFull()
  const bootedAtStoreMs = isFirst ? 0 : clock.monotonicMs() + opened.storeOffsetMs
  const continuity = isFirst ? 'first' : 'lost'
  return { continuity, incarnation, pairs: {}, rows: [], bootedAtStoreMs }
}

async function nextIncarnation(
  deps: BootDeps,
  store: RegionStore,
  opened: OpenedStore,
): Promise<Incarnation> {
  const { incarnations, memory, clock } = deps
  const atLeast = Math.max(opened.incarnation, memory.incarnationHeard)
  const endMs = clock.monotonicMs() + ADMIN_WAIT_MS
  while (clock.monotonicMs() < endMs) {
    const given = await incarnations.ask(atLeast)
    // Whatever admin says, a region that finds traces of an incarnation of its own is not new.
    if (given !== null) return { ...given, isFirst: given.isFirst && atLeast === 0 }
    await keepLease(deps, store, clock.monotonicMs() + ADMIN_RETRY_MS)
  }
  return incarnations.mint(atLeast)
}

/** Between parts of a long reading: others have their turn, and the lease does not lapse meanwhile. */
function leaseKeeper({ clock, leadership }: BootDeps, store: RegionStore): () => Promise<void> {
  let dueMs = clock.monotonicMs() + RENEW_INTERVAL_MS
  return async () => {
    await turn()
    if (clock.monotonicMs() < dueMs) return
    await requireContinued(leadership, store)
    dueMs = clock.monotonicMs() + RENEW_INTERVAL_MS
  }
}

async function requireContinued(
  leadership: BootDeps['leadership'],
  store: RegionStore,
): Promise<void> {
  if ((await leadership.claim(store)) === 'continued') return
  throw new QuotaError('QUOTA_FENCED', 'another daemon may have led this region since')
}

/**
 * Keeps the lease until `untilMs`.
 *
 * After a Redis that lost its memory gave this process the lease, the daemon that led before may believe in its
 * own for that long, and acknowledge loans of the incarnation that is about to be declared lost.
 */
async function keepLease(deps: BootDeps, store: RegionStore, untilMs: number): Promise<void> {
  const { clock, leadership, signal } = deps
  for (;;) {
    signal.throwIfAborted()
    await requireContinued(leadership, store)
    const leftMs = untilMs - clock.monotonicMs()
    if (leftMs <= 0) return
    await pause(Math.min(leftMs, RENEW_INTERVAL_MS), signal)
  }
}
