/** S9 and S10: links that are cut, one-way, flapping, lossy, slow or out of order. */
import { GOOD_LINK, type Link } from '../world/network.ts'
import type { World, WorldSpec } from '../world/world.ts'
import { repeated, type Scenario, steadies, THOUSAND, type Variant } from './scenario.ts'

const FROM_MS = 10_000
const TO_MS = 50_000
/** A lender has its units back by then. */
const LAPSED_MS = 12_000

interface CutVariant {
  readonly name: string
  /** False where loans lapse while it is judged: only what comes after is held to the optimum. */
  readonly hasTarget?: boolean
  readonly perSecond: readonly number[]
  readonly cut: (world: World) => void
  readonly judge?: WorldSpec['judge']
}

function cutVariant({ name, perSecond, cut, judge, hasTarget = true }: CutVariant): Variant {
  return {
    name,
    ...(hasTarget && { target: { utilisationPartitionAware: 0.98 } }),
    spec: {
      regions: perSecond.length,
      limit: THOUSAND,
      durationMs: 70_000,
      judge: judge ?? { fromMs: FROM_MS + LAPSED_MS, toMs: TO_MS },
      stepAtMs: TO_MS,
      callers: steadies(...perSecond),
      events: cut,
    },
  }
}

const HOT = [1_200, ...repeated(4, 150)]

const partitions: Scenario = {
  id: 'S9',
  title: 'network partition',
  variants: [
    cutVariant({
      name: '3/2 split for 40 s, 5x400',
      perSecond: repeated(5, 400),
      cut: (world) => world.cut([0, 1, 2], [3, 4], { fromMs: FROM_MS, toMs: TO_MS }),
    }),
    cutVariant({
      name: '3/2 split for 40 s, 600/50/50/600/50',
      perSecond: [600, 50, 50, 600, 50],
      cut: (world) => world.cut([0, 1, 2], [3, 4], { fromMs: FROM_MS, toMs: TO_MS }),
    }),
    cutVariant({
      name: 'hot region cut off for 40 s',
      perSecond: HOT,
      cut: (world) => world.cut([0], [1, 2, 3, 4], { fromMs: FROM_MS, toMs: TO_MS }),
    }),
    cutVariant({
      name: 'hot region hears nothing for 40 s',
      perSecond: HOT,
      cut: (world) =>
        world.cut([1, 2, 3, 4], [0], { fromMs: FROM_MS, toMs: TO_MS, isOneWay: true }),
    }),
    cutVariant({
      name: 'nobody hears the hot region for 40 s',
      perSecond: HOT,
      cut: (world) =>
        world.cut([0], [1, 2, 3, 4], { fromMs: FROM_MS, toMs: TO_MS, isOneWay: true }),
    }),
    cutVariant({
      name: 'hot region cut off for 10 s',
      perSecond: HOT,
      cut: (world) => world.cut([0], [1, 2, 3, 4], { fromMs: FROM_MS, toMs: 20_000 }),
      judge: { fromMs: FROM_MS, toMs: 20_000 },
      hasTarget: false,
    }),
    cutVariant({
      name: 'links flap, 1 s on, 1 s off',
      perSecond: HOT,
      cut: (world) => {
        for (let fromMs = FROM_MS; fromMs < TO_MS; fromMs += 2_000) {
          world.cut([0], [1, 2, 3, 4], { fromMs, toMs: fromMs + 1_000 })
        }
      },
      judge: { fromMs: 0, toMs: 70_000 },
      hasTarget: false,
    }),
    cutVariant({
      name: 'all apart for 40 s',
      perSecond: HOT,
      cut: (world) => {
        for (let one = 0; one < 5; one++) {
          for (let other = one + 1; other < 5; other++) {
            world.cut([one], [other], { fromMs: FROM_MS, toMs: TO_MS })
          }
        }
      },
    }),
  ],
}

function lossy(name: string, link: Partial<Link>): Variant {
  return {
    name,
    spec: {
      regions: 5,
      limit: THOUSAND,
      link: { ...GOOD_LINK, ...link },
      durationMs: 60_000,
      callers: steadies(...HOT),
    },
  }
}

const badLinks: Scenario = {
  id: 'S10',
  title: 'loss, repetition, reordering',
  variants: [
    lossy('loss 0', {}),
    lossy('loss 5 %', { loss: 0.05 }),
    lossy('loss 10 %', { loss: 0.1 }),
    lossy('loss 30 %', { loss: 0.3 }),
    lossy('20 % twice', { duplicate: 0.2 }),
    lossy('20 % late by up to 6 s', { late: 0.2, lateMs: 6_000 }),
    lossy('all of it', { loss: 0.3, duplicate: 0.2, late: 0.2, lateMs: 6_000 }),
  ],
}

export const NETWORKS: readonly Scenario[] = [partitions, badLinks]
