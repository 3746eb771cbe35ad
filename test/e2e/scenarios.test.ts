import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { AdminClient } from '../../services/cli/admin-client.ts'
import type { Collector } from '../../services/cli/demo/collector.ts'
import type { Load } from '../../services/cli/demo/load.ts'
import type { Plane } from '../../services/cli/plane/topology.ts'
import { applyPolicy } from '../../services/cli/policy-client.ts'
import { holdsInATry } from '../support/tries.ts'
import { admittedPerSecond, baseAdmitted, type RegionSpan } from './region-figures.ts'
import { decidingBy, untilRollout, withCapacity } from './rollouts.ts'
import {
  BURST,
  CAPACITY,
  drive,
  localPlane,
  offered,
  type PlaneEvent,
  REGIONS,
  scenarioPolicy,
} from './support.ts'

/** What the issue asks for: 50 ms from region to region, one way. */
const LINK_DELAY_MS = 50

/** Half the load of one scenario alone: several go on at once, on a machine that may have two cores. */
const SCALE = 0.5

const [US, EU] = REGIONS

/** Each fault is of a whole plane, so each has one of its own. They mostly wait for loans to lapse, and so do it together. */
const PLANES = ['cut', 'one-way', 'daemon', 'redis'] as const
type PlaneName = (typeof PLANES)[number]

const planes = new Map<PlaneName, Plane>()
beforeAll(async () => {
  const started = PLANES.map(async (name) => {
    planes.set(name, await localPlane({ linkDelayMs: LINK_DELAY_MS }))
  })
  await Promise.all(started)
}, 240_000)
afterAll(async () => {
  await Promise.all([...planes.values()].map((plane) => plane.stop()))
})

function planeOf(name: PlaneName): Plane {
  const plane = planes.get(name)
  if (plane === undefined) throw new Error(`the plane of ${name} was started`)
  return plane
}

const load = (
  endMs: number,
  phases: readonly (readonly [fromMs: number, first: number, second: number])[],
): Load => ({
  phases: phases.map(([fromMs, first, second]) => ({
    fromMs,
    offered: offered(first, second, SCALE),
  })),
  endMs,
})

const overshoot = (collector: Collector): number | undefined => collector.overshoots()[0]?.overshoot

const inUs = (fromMs: number, toMs: number): RegionSpan => ({ region: 0, part: 0.6, fromMs, toMs })
const inEu = (fromMs: number, toMs: number): RegionSpan => ({ region: 1, part: 0.4, fromMs, toMs })

/** A fault under load: nothing is over-admitted in any try, and in one the figures hold too. */
async function survives(
  name: PlaneName,
  scenario: { readonly load: Load; readonly events: readonly PlaneEvent[] },
  once: (collector: Collector) => void,
): Promise<void> {
  const { events } = scenario
  await holdsInATry(
    (attempt) =>
      drive(planeOf(name), `${name}-${attempt}`, scenario.load, { events, scale: SCALE }),
    { always: (collector) => expect(overshoot(collector)).toBe(0), once },
  )
}

describe('a step in the load', { timeout: 300_000 }, () => {
  it('is followed to 95 % of the achievable within two seconds, ten times of ten', async () => {
    const stepMs = 3_000
    const steps = load(
      6 * stepMs,
      Array.from({ length: 6 }, (_, i) => {
        const [first, second] = i % 2 === 0 ? [60, 40] : [10, 90]
        return [i * stepMs, first, second] as const
      }),
    )
    // Two limits step five times each.
    const measure = (attempt: number): Promise<Collector[]> =>
      Promise.all(
        ['one', 'other'].map((limit) =>
          drive(planeOf('cut'), `steps-${limit}-${attempt}`, steps, { scale: SCALE }),
        ),
      )
    await holdsInATry(measure, {
      always: (collectors) => expect(collectors.map(overshoot)).toEqual([0, 0]),
      once(collectors) {
        const times = collectors.flatMap((collector) =>
          steps.phases.slice(1).map(({ fromMs }) => collector.convergenceMs(fromMs)),
        )
        expect(times).toHaveLength(10)
        // With ten steps, the 95th percentile is the slowest of them.
        const slowest = Math.max(...times.map((ms) => ms ?? Number.POSITIVE_INFINITY))
        expect(slowest, `${times}`).toBeLessThan(2_000)
      },
    })
  })
})

describe.concurrent('a cut between the regions in mid-shift, or a part that dies under load', {
  timeout: 300_000,
}, () => {
  it('a cut of both ways for 20 s: nothing is over-admitted, each keeps its base, and they find together again', async () => {
    const { links } = planeOf('cut')
    await survives(
      'cut',
      {
        load: load(30_000, [
          [0, 60, 40],
          [3_000, 10, 90],
          // While they cannot hear each other, the load turns to the region that had lent its part.
          [19_000, 90, 90],
          [24_000, 10, 90],
        ]),
        events: [
          {
            atMs: 3_300,
            run: () => {
              links.cut(US, EU)
              links.cut(EU, US)
            },
          },
          { atMs: 23_300, run: () => links.healAll() },
        ],
      },
      (collector) => {
        // Loans have lapsed after about 10.5 s, so each admits its own base and no more.
        expect(baseAdmitted(collector, inUs(20_000, 23_000), SCALE)).toBeGreaterThan(0.93)
        expect(baseAdmitted(collector, inEu(15_000, 23_000), SCALE)).toBeGreaterThan(0.93)
        expect(admittedPerSecond(collector, inEu(15_000, 23_000))).toBeLessThan(
          SCALE * (0.4 * CAPACITY + BURST),
        )
        expect(collector.convergenceMs(24_000)).toBeLessThan(4_000)
      },
    )
  })

  it('a cut of one way: the same, though one of them still hears the other', async () => {
    const { links } = planeOf('one-way')
    await survives(
      'one-way',
      {
        load: load(27_000, [
          [0, 60, 40],
          [2_000, 10, 90],
          [17_000, 90, 90],
          [21_000, 10, 90],
        ]),
        events: [
          { atMs: 2_300, run: () => links.cut(US, EU) },
          { atMs: 20_500, run: () => links.heal(US, EU) },
        ],
      },
      (collector) => {
        expect(baseAdmitted(collector, inUs(18_000, 20_500), SCALE)).toBeGreaterThan(0.93)
        expect(baseAdmitted(collector, inEu(15_000, 20_500), SCALE)).toBeGreaterThan(0.93)
        expect(collector.convergenceMs(21_000)).toBeLessThan(4_000)
      },
    )
  })

  it("the borrower's sync daemon: nothing is over-admitted, and the base stays with its region", async () => {
    const borrower = planeOf('daemon').regions[1]?.sync.child
    await survives(
      'daemon',
      {
        load: load(20_000, [
          [0, 60, 40],
          [1_000, 10, 90],
          [15_000, 90, 90],
        ]),
        events: [
          { atMs: 3_000, run: () => borrower?.kill('SIGKILL') },
          { atMs: 18_000, run: () => borrower?.restart() },
        ],
      },
      (collector) => {
        expect(baseAdmitted(collector, inEu(3_000, 18_000), SCALE)).toBeGreaterThan(0.93)
        expect(baseAdmitted(collector, inUs(16_000, 18_000), SCALE)).toBeGreaterThan(0.93)
      },
    )
  })

  it("the lender's Redis: nothing is over-admitted, and its region decides again by itself", async () => {
    const lender = planeOf('redis').regions[0]?.redis.child
    await survives(
      'redis',
      {
        load: load(21_000, [
          [0, 60, 40],
          [1_000, 10, 90],
          [5_000, 90, 90],
        ]),
        events: [
          { atMs: 4_000, run: () => lender?.kill('SIGKILL') },
          { atMs: 4_500, run: () => lender?.restart() },
        ],
      },
      (collector) => {
        expect(baseAdmitted(collector, inEu(2_000, 21_000), SCALE)).toBeGreaterThan(0.93)
        expect(baseAdmitted(collector, inUs(18_000, 21_000), SCALE)).toBeGreaterThan(0.9)
      },
    )
  })
})

describe('a change of policy while a region is cut off', () => {
  it('is never said to be applied there, with since when and why, until it is', async () => {
    const plane = planeOf('one-way')
    const client = new AdminClient(plane.admin)
    const document = scenarioPolicy('rollout')
    const before = await applyPolicy(client, document)
    await untilRollout(client, before.revision, ({ isComplete }) => isComplete)

    plane.links.cut(US, EU)
    plane.links.cut(EU, US)
    const cutMs = Date.now()
    const { revision } = await applyPolicy(client, withCapacity(document, CAPACITY + 1))
    const cutOff = await untilRollout(client, revision, ({ isCompleteInReach, regions }) => {
      return isCompleteInReach && regions.some(({ unknownSince }) => unknownSince !== null)
    })
    // Admin is connected to either of them; the other is the one that it cannot reach.
    const far = cutOff.at(-1)?.regions.find(({ state }) => state !== 'applied')?.region ?? ''
    const ofFar = cutOff.map(({ regions }) => regions.find(({ region }) => region === far))
    for (const [index, one] of ofFar.entries()) {
      expect(cutOff[index]?.isComplete).toBe(false)
      expect(one).toMatchObject({
        state: expect.stringMatching(/^(pending|unknown)$/),
        since: null,
      })
      expect(one?.appliedRevision).toBeLessThan(revision)
      expect(one?.reason).toMatch(/^(it has heard of revision|nothing was heard of it since) /)
      expect(one?.enforcers.map(({ state }) => state)).not.toContain('applied')
    }
    expect(ofFar[0]).toMatchObject({ state: 'pending', unknownSince: null })
    expect(ofFar.at(-1)).toMatchObject({ state: 'unknown' })
    expect(Date.parse(ofFar.at(-1)?.unknownSince ?? '')).toBeLessThan(cutMs + 2_000)
    const near = cutOff.at(-1)?.regions.find(({ region }) => region !== far)
    expect(near).toMatchObject({ state: 'applied', appliedRevision: revision, reason: null })
    expect(Date.parse(near?.since ?? '')).toBeGreaterThanOrEqual(cutMs)

    // Each decides by what it is said to apply.
    expect(await decidingBy(plane, near?.region, document)).toBe(CAPACITY + 1)
    expect(await decidingBy(plane, far, document)).toBe(CAPACITY)

    const healMs = Date.now()
    plane.links.healAll()
    const healed = await untilRollout(client, revision, ({ isComplete }) => isComplete)
    const found = healed.at(-1)?.regions.find(({ region }) => region === far)
    expect(found).toMatchObject({ state: 'applied', unknownSince: null, reason: null })
    expect(Date.parse(found?.since ?? '')).toBeGreaterThanOrEqual(healMs)
    expect(await decidingBy(plane, far, document)).toBe(CAPACITY + 1)
  })
})
