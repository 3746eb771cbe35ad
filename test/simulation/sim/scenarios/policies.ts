/** S13: limits and base splits that change while they are in use. */
import type { World } from '../world/world.ts'
import { bucket, perWindow, type Scenario, steadies, type Variant } from './scenario.ts'

const AT_MS = 15_000

function edit(
  name: string,
  change: (world: World) => void,
  perSecond: readonly number[] = [800, 300],
): Variant {
  return {
    name,
    spec: {
      regions: perSecond.length,
      limit: bucket(1_000, 200),
      durationMs: 60_000,
      callers: steadies(...perSecond),
      events: change,
    },
  }
}

function isolated(change: (world: World) => void): (world: World) => void {
  return (world) => {
    world.cut([0], [1, world.adminPlace], { fromMs: AT_MS - 5_000, toMs: AT_MS + 20_000 })
    change(world)
  }
}

const double = (world: World): void =>
  world.at(AT_MS, () => world.strategy.admin?.setNumbers({ capacity: 2_000, burst: 400 }))
const halve = (world: World): void =>
  world.at(AT_MS, () => world.strategy.admin?.setNumbers({ capacity: 500, burst: 100 }))
const burst = (world: World): void =>
  world.at(AT_MS, () => world.strategy.admin?.setNumbers({ burst: 50 }))

/** 50/50, then 60/40, then 90/10 as soon as that is adopted. */
function reweigh(world: World): void {
  const admin = world.strategy.admin
  world.at(AT_MS, () => admin?.setBase({ r00: 600_000, r01: 400_000 }))
  const again = (): void => {
    const isDone = admin?.setBase({ r00: 900_000, r01: 100_000 }) ?? true
    if (!isDone) world.queue.after(100_000, again)
  }
  world.at(AT_MS + 1_000, again)
}

/** There and back, whenever the last change is adopted: an epoch about each second. */
function restless(world: World): void {
  const admin = world.strategy.admin
  let isEven = true
  const turn = (): void => {
    const base = isEven ? { r00: 900_000, r01: 100_000 } : { r00: 100_000, r01: 900_000 }
    if (admin?.setBase(base) === true) isEven = !isEven
    world.queue.after(250_000, turn)
  }
  world.at(AT_MS, turn)
}

const edits: Scenario = {
  id: 'S13',
  title: 'policies change under load',
  variants: [
    edit('limit doubled', double),
    edit('limit doubled, one region cut off', isolated(double)),
    edit('limit halved', halve),
    edit('limit halved, one region cut off', isolated(halve)),
    edit('burst 200 -> 50', burst),
    edit('split 50/50 -> 60/40 -> 90/10', reweigh),
    edit('split changed, one region cut off', isolated(reweigh)),
    edit('split changed without pause', restless, [900, 900]),
    {
      name: 'split changed without pause, window 300/5 s',
      spec: {
        regions: 2,
        limit: perWindow(300, 5_000),
        durationMs: 120_000,
        callers: steadies(60, 60),
        events: restless,
      },
    },
  ],
}

export const POLICIES: readonly Scenario[] = [edits]
