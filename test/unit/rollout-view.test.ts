import { beforeEach, describe, expect, it } from 'vitest'
import { RolloutView } from '../../services/admin/rollout-view.ts'
import { rolloutView } from '../../services/cli/commands/rollout.ts'
import type { EnforcerStatus, RegionReport } from '../../shared/core/rollout.ts'

const MEMBERS = ['eu-west-1', 'us-east-1']

let view: RolloutView
let nowMs: number
beforeEach(() => {
  view = new RolloutView()
  nowMs = 1_000_000
})

const enforcer = (change: Partial<EnforcerStatus> = {}): EnforcerStatus => ({
  id: 'e1',
  name: 'host:8080',
  revision: 6,
  sinceMs: nowMs - 50,
  refused: null,
  ...change,
})

function hear(from: string, revision: number, change: Partial<RegionReport> = {}): void {
  const enforcers = [enforcer({ revision })]
  const rest = { sinceMs: nowMs - 100, heard: revision, refused: null, waitsFor: null, unlisted: 0 }
  view.hear({ from, revision, enforcers, ...rest, ...change }, MEMBERS, nowMs)
}

const rollout = (revision: number) => view.rolloutOf({ revision, members: MEMBERS, nowMs })
const stateOf = (region: string, revision: number) => view.regionOf(region, revision, nowMs)

describe('a rollout', () => {
  it('is complete once every enforcer of every region applies the revision, and says since when', () => {
    for (const region of MEMBERS) hear(region, 6)
    expect(rollout(7)).toMatchObject({ isComplete: false, isCompleteInReach: false })
    nowMs += 1_000
    for (const region of MEMBERS) hear(region, 7)
    expect(rollout(7).isComplete).toBe(true)
    expect(stateOf('us-east-1', 7)).toMatchObject({
      state: 'applied',
      since: new Date(nowMs - 100).toISOString(),
      enforcers: [{ state: 'applied', since: new Date(nowMs - 50).toISOString() }],
    })
  })

  it('B124: a region whose enforcer refused the version has not applied it, and says why', () => {
    const refused = { revision: 7, reason: 'policies of format 2 were written' }
    hear('eu-west-1', 7)
    hear('us-east-1', 7, { enforcers: [enforcer({ revision: 6, refused })] })
    expect(rollout(7).isComplete).toBe(false)
    expect(stateOf('us-east-1', 7)).toMatchObject({
      state: 'refused',
      appliedRevision: 7,
      reason: 'not every enforcer of the region applies it',
      enforcers: [{ state: 'refused', appliedRevision: 6, reason: refused.reason }],
    })
    expect(rolloutView(rollout(7)).rows.flat()).toContain(refused.reason)
  })

  it('tells of a region that refuses what admin sends, and of one that waits', () => {
    const reason = 'a policy message of version 2 came'
    hear('eu-west-1', 6, { heard: 7, refused: { revision: 7, reason } })
    hear('us-east-1', 6, { heard: 7, waitsFor: 'admin did not answer' })
    expect(stateOf('eu-west-1', 7)).toMatchObject({ state: 'refused', reason })
    expect(stateOf('us-east-1', 7)).toMatchObject({
      state: 'pending',
      reason: 'admin did not answer',
    })
    hear('us-east-1', 6, { heard: 7 })
    expect(stateOf('us-east-1', 7)).toMatchObject({ state: 'pending', reason: null })
    expect(stateOf('us-east-1', 8)).toMatchObject({
      state: 'pending',
      reason: 'it has heard of revision 7 and no later one',
    })
  })

  it('says of a region that is cut off only what it had said, and since when nothing is known', () => {
    for (const region of MEMBERS) hear(region, 6)
    const cutOffMs = nowMs
    nowMs += 60_000
    hear('eu-west-1', 7)
    expect(stateOf('us-east-1', 6)).toMatchObject({ state: 'applied', heardAgeMs: 60_000 })
    const unknownSince = new Date(cutOffMs).toISOString()
    expect(stateOf('us-east-1', 7)).toMatchObject({
      state: 'unknown',
      reason: `nothing was heard of it since ${unknownSince}`,
      unknownSince,
    })
    expect(rollout(7)).toMatchObject({ isComplete: false, isCompleteInReach: true })
    expect(rolloutView(rollout(7)).notes?.join()).not.toContain(unknownSince)
    expect(rolloutView(rollout(6)).notes).toContain(`us-east-1 was heard last at ${unknownSince}`)
  })

  it('knows nothing of a region that it never heard, and forgets one that was removed', () => {
    expect(stateOf('us-east-1', 1)).toMatchObject({ state: 'unknown', heardAgeMs: null })
    hear('us-east-1', 6)
    view.hear(
      {
        ...{ from: 'eu-west-1', revision: 6, sinceMs: 1, heard: 6, refused: null, waitsFor: null },
        enforcers: [],
        unlisted: 0,
      },
      ['eu-west-1'],
      nowMs,
    )
    expect(stateOf('us-east-1', 1).heardAgeMs).toBeNull()
  })

  it('dates a revision that came with a later one by that one, and none from before it listened', () => {
    hear('us-east-1', 6)
    expect(stateOf('us-east-1', 5).since).toBeNull()
    nowMs += 5_000
    hear('us-east-1', 9)
    expect(stateOf('us-east-1', 8).since).toBe(new Date(nowMs - 100).toISOString())
    // It lost its Redis.
    hear('us-east-1', 2)
    expect(stateOf('us-east-1', 8)).toMatchObject({ state: 'pending', appliedRevision: 2 })
  })
})
