/**
 * Concurrency: at most the share's tokens held at once, each by a holder until it is released or its longest hold ends.
 *
 * A holder that acquires again holds no more than before, and not longer: a repeated request is the same request. One
 * that crashed is forgotten when its hold ends. `windowMs` of the limit is the longest hold.
 */
import { assert } from '../assert.ts'
import type { RegionLimit } from '../policy.ts'
import { shareTokens } from '../units.ts'
import { type Algorithm, type Circumstances, isAstray, type Settled, unitsAt } from './algorithm.ts'

export interface Hold {
  readonly holder: string
  readonly endUs: number
  readonly tokens: number
}

export interface HoldsState {
  readonly version: number
  /** In the order of their ends. */
  readonly holds: readonly Hold[]
}

export interface SettledHolds extends Settled {
  readonly circumstances: Circumstances
  readonly stored: boolean
  readonly holds: readonly Hold[]
  readonly held: number
  /** Holders from before the region's levels start may hold still, and are not known. */
  readonly isBlind: boolean
}

/** Most holders of one counter in one region: bounds its key to 32 kB, whatever the capacity. */
export const HOLDERS_MAX = 1_024

/**
 * Longest wait that a denied caller is told, ms. A holder may release at any moment, and waiting out the longest hold
 * for it would leave free what others could use.
 */
export const CONCURRENCY_WAIT_MS_MAX = 1_000

const KEEP_MARGIN_MS = 1_000

export const concurrency: Algorithm<HoldsState, SettledHolds> = {
  settle(state, circumstances) {
    const { limit, boot, nowUs } = circumstances
    const first = (state?.holds ?? []).findIndex(({ endUs }) => endUs > nowUs)
    const holds = first < 0 ? [] : (state?.holds ?? []).slice(first)
    const longestUs = longestHoldUs(limit)
    const settled = {
      circumstances,
      stored: state !== null,
      holds,
      held: holds.reduce((sum, { tokens }) => sum + tokens, 0),
      isBlind: nowUs < boot.startUs + longestUs,
      astray: isAstray(circumstances, (holds.at(-1)?.endUs ?? 0) - 2 * longestUs + windowUs(limit)),
    }
    return { ...settled, ...room(settled) }
  },

  holds: (settled, holder) => settled.holds.some((hold) => hold.holder === holder),

  take(settled, cost, holder) {
    assert(holder !== undefined, 'tokens of a concurrency limit are held by someone')
    if (settled.holds.some((hold) => hold.holder === holder)) return settled
    assert(cost <= settled.remaining, 'no more is held than the share')
    const { limit, nowUs } = settled.circumstances
    const endUs = nowUs + windowUs(limit)
    const before = settled.holds.filter((hold) => hold.endUs <= endUs)
    const holds = [
      ...before,
      { holder, endUs, tokens: cost },
      ...settled.holds.slice(before.length),
    ]
    return withHolds(settled, holds, settled.held + cost)
  },

  /** Only what was acquired at `atUs`: an earlier hold of the same holder stays. */
  giveBack(settled, { atUs, holder }) {
    const { limit, boot } = settled.circumstances
    if (atUs < boot.startUs) return null
    const endUs = atUs + windowUs(limit)
    const hold = settled.holds.find((one) => one.holder === holder)
    return hold === undefined || hold.endUs !== endUs ? null : without(settled, hold)
  },

  release(settled, holder) {
    const hold = settled.holds.find((one) => one.holder === holder)
    return hold === undefined ? null : without(settled, hold)
  },

  resize(settled, share, shrinks) {
    const resized = { ...settled, circumstances: { ...settled.circumstances, share } }
    const { most, remaining } = room(resized)
    if (shrinks && (settled.isBlind || settled.held > most)) return null
    return { ...resized, most, remaining, stored: true }
  },

  heal(settled) {
    const { limit, nowUs } = settled.circumstances
    const latestUs = nowUs + longestHoldUs(limit)
    const holds = settled.holds.map((hold) => ({
      ...hold,
      endUs: Math.min(hold.endUs, latestUs),
    }))
    return { ...settled, holds, astray: false }
  },

  /** Until nothing is held any more if nobody releases. */
  resetMs(settled) {
    const { limit, boot, nowUs } = settled.circumstances
    const longestUs = longestHoldUs(limit)
    const lastUs = settled.holds.at(-1)?.endUs ?? 0
    const blindUs = settled.isBlind ? boot.startUs + longestUs : 0
    return msFrom(nowUs, Math.max(settled.astray ? nowUs + longestUs : lastUs, blindUs))
  },

  waitMs(settled, cost) {
    if (cost > settled.most) return null
    const { limit, boot, nowUs } = settled.circumstances
    if (settled.isBlind) return msFrom(nowUs, boot.startUs + longestHoldUs(limit))
    let short = Math.max(1, settled.held + cost - settled.most)
    let freeUs = nowUs
    for (const { endUs, tokens } of settled.holds) {
      if (short <= 0) break
      freeUs = endUs
      short -= tokens
    }
    return Math.min(msFrom(nowUs, freeUs), CONCURRENCY_WAIT_MS_MAX)
  },

  store({ circumstances, holds }) {
    return { version: circumstances.limit.version, holds }
  },

  keepMs({ circumstances, holds }) {
    const { nowUs } = circumstances
    return msFrom(nowUs, holds.at(-1)?.endUs ?? nowUs) + KEEP_MARGIN_MS
  },
}

/** Of what may be held now: a hold lasts as long as the limit said when it began. */
function longestHoldUs(limit: RegionLimit): number {
  return Math.max(limit.windowMs, limit.previous?.windowMs ?? 0) * 1_000
}

function windowUs(limit: RegionLimit): number {
  return limit.windowMs * 1_000
}

function without(settled: SettledHolds, hold: Hold): SettledHolds {
  const holds = settled.holds.filter((one) => one !== hold)
  return withHolds(settled, holds, settled.held - hold.tokens)
}

function withHolds(settled: SettledHolds, holds: readonly Hold[], held: number): SettledHolds {
  const changed = { ...settled, holds, held }
  return { ...changed, ...room(changed) }
}

function room(
  settled: Pick<SettledHolds, 'circumstances' | 'holds' | 'held' | 'isBlind'>,
): Pick<Settled, 'most' | 'remaining'> {
  const { limit, nowUs } = settled.circumstances
  const most = shareTokens(limit.capacity, unitsAt(settled.circumstances, limit, nowUs))
  const isFull = settled.isBlind || settled.holds.length >= HOLDERS_MAX
  return { most, remaining: isFull ? 0 : Math.max(0, most - settled.held) }
}

function msFrom(nowUs: number, atUs: number): number {
  return Math.max(0, Math.ceil((atUs - nowUs) / 1_000))
}
