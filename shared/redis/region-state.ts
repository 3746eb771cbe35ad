/** Reads what a region's Redis holds of its daemon's state. Everything here was written by such a daemon. */
import type { CounterId } from '../core/descriptor.ts'
import type { LedgerRow, PairState } from '../core/ledger/types.ts'
import type { Policy, RegionId, RegionPolicy } from '../core/policy.ts'
import type { Stretch } from '../runtime/stretch.ts'
import { GROUP_KEYS, REGION_KEYS, type RegionField } from './keys.ts'
import type { RegionLink } from './region-link.ts'
import type { StoredTexts, Texts } from './region-policies.ts'
import { SERVED_FIELDS } from './served-scripts.ts'

/** Rows asked for at a time, so that reading a long ledger does not stall the checks. */
const SCAN_COUNT = 256

/** Policies asked for at a time, for the same reason. */
const POLICIES_PER_READ = 500

export interface RegionState {
  readonly incarnation: number
  readonly version: number
  readonly revision: number
  readonly checkTokensAsOfMs: number
  readonly seqReserved: number
  readonly members: readonly RegionId[]
  readonly replicationId: string
  readonly shas: readonly string[]
  readonly pairs: Readonly<Record<RegionId, PairState>>
  readonly plane: readonly Policy[]
  readonly policies: readonly RegionPolicy[]
  /** Both as they are written. */
  readonly texts: StoredTexts
  readonly rows: readonly LedgerRow[]
}

export async function readRegionState(link: RegionLink, stretch: Stretch): Promise<RegionState> {
  const hash = (key: string) => link.onNode(key, (node) => node.hgetall(key))
  const [fields, pairs, rows] = await link.within('read the region', () =>
    Promise.all([
      hash(REGION_KEYS.region),
      hash(REGION_KEYS.pairs),
      Promise.all(GROUP_KEYS.map(({ ledger }) => readRows(link, ledger))),
    ]),
  )
  const plane = await readPolicies<Policy>(link, REGION_KEYS.plane, stretch)
  const policies = await readPolicies<RegionPolicy>(link, REGION_KEYS.policies, stretch)
  const field = (name: RegionField): string => fields[name] ?? ''
  return {
    incarnation: Number(field('incarnation')),
    version: Number(field('version')),
    revision: Number(field('revision')),
    checkTokensAsOfMs: Number(field('checkTokensAsOf')),
    seqReserved: Number(field('seqReserved')),
    members: field('members') === '' ? [] : (JSON.parse(field('members')) as RegionId[]),
    replicationId: field('replicationId'),
    shas: Object.values(SERVED_FIELDS)
      .map(field)
      .filter((sha) => sha !== ''),
    pairs: Object.fromEntries(
      Object.entries(pairs).map(([peer, json]) => [peer, JSON.parse(json) as PairState]),
    ),
    plane: plane.all,
    policies: policies.all,
    texts: { plane: plane.texts, region: policies.texts },
    rows: rows.flat(),
  }
}

/**
 * Oldest id first, so that their order does not depend on the hash. In parts, each with a deadline of its own; nobody
 * else writes them once this daemon has raised the fence.
 */
async function readPolicies<P extends { readonly id: number }>(
  link: RegionLink,
  key: string,
  stretch: Stretch,
): Promise<{ readonly all: readonly P[]; readonly texts: Texts }> {
  const ids = await link.within('read which policies there are', () =>
    link.onNode(key, (node) => node.hkeys(key)),
  )
  const texts = new Map<string, string>()
  const all: P[] = []
  for (let start = 0; start < ids.length; start += POLICIES_PER_READ) {
    const part = ids.slice(start, start + POLICIES_PER_READ)
    const read = () => link.onNode(key, (node) => node.hmget(key, ...part))
    for (const [index, text] of (await link.within('read policies', read)).entries()) {
      if (text === null) continue
      texts.set(part[index] ?? '', text)
      all.push(parsePolicy<P>(text))
      await stretch.breathe()
    }
  }
  return { all: all.sort((one, other) => one.id - other.id), texts }
}

/** A policy as a daemon wrote it. */
export function parsePolicy<P>(json: string): P {
  return JSON.parse(json) as P
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
