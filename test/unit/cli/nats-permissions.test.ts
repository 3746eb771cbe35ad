import { describe, expect, it } from 'vitest'
import { natsAuthorization } from '../../../services/cli/keys/nats-permissions.ts'
import * as subjects from '../../../shared/protocol/subjects.ts'

const REGION = 'eu-west-1'
const text = natsAuthorization({ region: REGION, syncKey: 'USYNC', adminKey: 'UADMIN' })
const lists = [...text.matchAll(/(publish|subscribe): \[(.*)\]/g)].map(([, kind, list = '']) => ({
  kind,
  subjects: [...list.matchAll(/"([^"]+)"/g)].map(([, subject]) => subject),
}))
const [syncPublish, syncSubscribe, adminPublish, adminSubscribe] = lists.map((l) => l.subjects)

/** Every subject of one region, by its function; and every subject that names all. */
const ofRegion = Object.entries(subjects).flatMap(([name, make]) =>
  typeof make === 'function' && /^[a-z]+Subject$/.test(name)
    ? [(make as (region: string) => string)(REGION)]
    : [],
)
const constants = Object.values(subjects)
  .map((value) => (typeof value === 'string' ? value : ''))
  .filter((value) => value.startsWith('quotaplane.'))

describe('the authorization of a region', () => {
  it('lets the region publish, or hear, each subject of its own', () => {
    expect(ofRegion.length).toBeGreaterThanOrEqual(6)
    for (const subject of ofRegion) {
      expect([...(syncPublish ?? []), ...(syncSubscribe ?? [])]).toContain(subject)
    }
  })

  it('gives every subject of the plane to somebody who says it and somebody who hears it', () => {
    const covers = (pattern: string | undefined, subject: string): boolean =>
      pattern === subject ||
      (subject.endsWith('.*') &&
        pattern?.slice(0, pattern.lastIndexOf('.')) === subject.slice(0, -2))
    for (const subject of constants) {
      const published = [...(syncPublish ?? []), ...(adminPublish ?? [])]
      const heard = [...(syncSubscribe ?? []), ...(adminSubscribe ?? [])]
      expect(
        published.some((pattern) => covers(pattern, subject)),
        `${subject} said`,
      ).toBe(true)
      expect(
        heard.some((pattern) => covers(pattern, subject)),
        `${subject} heard`,
      ).toBe(true)
    }
  })

  it('lets a region publish for every region only where it asks others for their records', () => {
    const wide = (syncPublish ?? []).filter((subject) => subject?.endsWith('*'))
    expect(wide).toEqual([subjects.SYNC_SUBJECTS])
  })
})
