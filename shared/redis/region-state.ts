/** Reads what a region's Redis holds of its daemon's state. Everything here was written by such a daemon. */
import type { CounterId } from '../core/descriptor.ts'
import type { LedgerRow, PairState } from '../core/ledger/types.ts'
import type { Policy, RegionId, RegionPolicy } from '../core/policy.ts'
import { GROUP_KEYS, REGION_KEYS, type RegionField } from './keys.ts'
import type { RegionLink } from './region-link.ts'
import { SERVED_FIELDS } from './served-scripts.ts'

/** Rows asked for at a time, so that reading a long ledger does not stall the checks. */
const SCAN_COUNT = 256

export interface RegionState {
  readonly incarnation: number
  readonly version: number
  readonly revision: number
  readonly seqReserved: number
  readonly members: readonly RegionId[]
  readonly replicationId: string
  readonly shas: readonly string[]
  readonly pairs: Readonly<Record<RegionId, PairState>>
  readonly plane: readonly Policy[]
  readonly policies: readonly RegionPolicy[]
  readonly rows: readonly LedgerRow[]
}

export async function readRegionState(link: RegionLink): Promise<RegionState> {
  const hash = (key: string) => link.onNode(key, (node) => node.hgetall(key))
  const [fields, pairs, plane, policies, rows] = await link.within('read the region', () =>
    Promise.all([
      hash(REGION_KEYS.region),
      hash(REGION_KEYS.pairs),
      hash(REGION_KEYS.plane),
      hash(REGION_KEYS.policies),
      Promise.all(GROUP_KEYS.map(({ ledger }) => readRows(link, ledger))),
    ]),
  )
  const field = (name: RegionField): string => fields[name] ?? ''
  return {
    incarnation: Number(field('incarnation')),
    version: Number(field('version')),
    revision: Number(field('revision')),
    seqReserved: Number(field('seqReserved')),
    members: field('members') === '' ? [] : (JSON.parse(field('members')) as RegionId[]),
    replicationId: field('replicationId'),
    shas: Object.values(SERVED_FIELDS)
      .map(field)
      .filter((sha) => sha !== ''),
    pairs: Object.fromEntries(
      Object.entries(pairs).map(([peer, json]) => [peer, JSON.parse(json) as PairState]),
    ),
    plane: parseAll<Policy>(Object.values(plane)),
    policies: parseAll<RegionPolicy>(Object.values(policies)),
    rows: rows.flat(),
  }
}

/** The policies of JSON texts, oldest id first, so that their order does not depend on the hash. */
export function parseAll<P extends { readonly id: number }>(texts: readonly string[]): P[] {
  return texts.map((json) => JSON.parse(json) as P).sort((a, b) => a.id - b.id)
}

async function readRows(link: RegionLink, key: string): Promise<LedgerRow[]> {
  // A scan may give a field twice.
  const rows = new Map<CounterId, LedgerRow>()
  let cursor = '0'
  do {
    const from = cursor
    const [next, pairs] = await link.onNode(key, (node) =>
      node.hscan(key, from, 'COUNT', SCAN_COUNT),
    )
    for (let index = 0; index + 1 < pairs.length; index += 2) {
      rows.set(pairs[index] ?? '', JSON.parse(pairs[index + 1] ?? '') as LedgerRow)
    }
    cursor = next
  } while (cursor !== '0')
  return [...rows.values()]
}
