import { describe, expect, it } from 'vitest'
import { Inbox } from '../../../services/sync/inbox.ts'
import { planeOf } from '../../../services/sync/plane.ts'
import { aRecord } from '../../support/records.ts'

describe('the inbox', () => {
  it('keeps the newest record of each peer, in whatever order they come (B157)', () => {
    const inbox = new Inbox(() => {})
    for (const seq of [2, 5, 3, 5, 1]) inbox.putRecord(aRecord({ seq }))
    inbox.putRecord(aRecord({ from: 'ap-south-1', seq: 1 }))
    expect(drain(inbox)).toEqual(['us-east-1 5', 'ap-south-1 1'])
  })

  it('never holds more than the regions that a plane may have', () => {
    const inbox = new Inbox(() => {})
    for (let i = 0; i < 1_000; i++) inbox.putRecord(aRecord({ from: `region-${i}`, seq: 1 }))
    expect(drain(inbox)).toHaveLength(64)
  })

  it('gives the plane before records that may speak of its limits, and only the newest', () => {
    const inbox = new Inbox(() => {})
    inbox.putRecord(aRecord({ seq: 1 }))
    inbox.putPlane(planeOf([], 8, []))
    inbox.putPlane(planeOf([], 7, []))
    expect(drain(inbox)).toEqual(['plane 8', 'us-east-1 1'])
  })

  it('wakes whoever waits for it', () => {
    let wakes = 0
    const inbox = new Inbox(() => wakes++)
    inbox.putRecord(aRecord({ seq: 1 }))
    inbox.putPlane(planeOf([], 1, []))
    expect(wakes).toBe(2)
  })
})

function drain(inbox: Inbox): string[] {
  const taken: string[] = []
  for (let next = inbox.take(); next !== null; next = inbox.take()) {
    if (next.kind === 'plane') taken.push(`plane ${next.plane.revision}`)
    else if (next.kind === 'question') taken.push('question')
    else if (next.kind === 'record') taken.push(`${next.record.from} ${next.record.mark.seq}`)
  }
  expect(inbox.isEmpty).toBe(true)
  return taken
}
