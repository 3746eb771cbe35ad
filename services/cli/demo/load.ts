import { setTimeout as delay } from 'node:timers/promises'
import type { DescriptorBody } from '../plane/enforced.ts'
import type { CheckSender } from './check-sender.ts'

/**
 * Checks of a region that may wait for their answer at once. An enforcer that keeps up has a handful in flight;
 * beyond this the load waits, since a larger pile-up would only measure our own memory.
 */
const IN_FLIGHT_MAX = 500

/** Node's timers wake about once a millisecond; what fell due meanwhile is sent together. */
const WAKE_EVERY_MS = 1

/**
 * A load that has fallen behind by more than this does not catch up. On a machine that is too busy for the
 * load it would otherwise come in bursts that nobody asked for.
 */
const BEHIND_MAX_MS = 100

/** A load whose rates change at given instants. */
export interface Load {
  /** In order of time; the first begins at 0. `offered`: checks a second per region. */
  readonly phases: readonly { readonly fromMs: number; readonly offered: readonly number[] }[]
  readonly endMs: number
}

/** Checks a second that each region is offered at an instant of the run. */
export function offeredAt(load: Load, nowMs: number): readonly number[] {
  return load.phases.findLast(({ fromMs }) => fromMs <= nowMs)?.offered ?? []
}

/**
 * Offers an open-loop load, evenly spaced per region: checks leave at their time whether or not earlier ones
 * are answered.
 * Resolves at `endMs` or when `signal` aborts.
 */
export async function offerLoad(
  load: Load,
  sender: CheckSender,
  options: {
    readonly originMs: number
    readonly client: string
    readonly descriptors: readonly DescriptorBody[]
    readonly signal: AbortSignal
  },
): Promise<void> {
  const { client, descriptors, signal } = options
  const due: number[] = []
  for (;;) {
    const nowMs = performance.now() - options.originMs
    if (nowMs >= load.endMs || signal.aborted) return
    for (const [region, rate] of offeredAt(load, nowMs).entries()) {
      due[region] = sendDue(
        { firstMs: due[region] ?? 0, nowMs, rate },
        () => sender.inFlight(region) >= IN_FLIGHT_MAX,
        () => sender.send({ region, client, descriptors }),
      )
    }
    await delay(WAKE_EVERY_MS)
  }
}

/** Sends what is due at `rate` a second, and gives the instant of the next one. */
function sendDue(
  due: { readonly firstMs: number; readonly nowMs: number; readonly rate: number },
  mayNotSend: () => boolean,
  send: () => void,
): number {
  if (due.rate === 0) return due.nowMs
  let dueMs = Math.max(due.firstMs, due.nowMs - BEHIND_MAX_MS)
  while (dueMs <= due.nowMs && !mayNotSend()) {
    send()
    dueMs += 1_000 / due.rate
  }
  return dueMs
}

/** A request to be sent at an instant of the run. */
export interface TimedOrder {
  readonly dueMs: number
  readonly region: number
  readonly client: string
  readonly descriptors: readonly DescriptorBody[]
}

/** Sends each order at its time, in order; resolves after the last one or when `signal` aborts. */
export async function playOrders(
  orders: readonly TimedOrder[],
  sender: CheckSender,
  options: { readonly originMs: number; readonly signal: AbortSignal },
): Promise<void> {
  for (const order of orders) {
    while (
      !options.signal.aborted &&
      (performance.now() - options.originMs < order.dueMs ||
        sender.inFlight(order.region) >= IN_FLIGHT_MAX)
    ) {
      await delay(WAKE_EVERY_MS)
    }
    if (options.signal.aborted) return
    sender.send(order)
  }
}
