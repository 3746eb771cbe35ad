import type { CounterId } from '../../../../shared/core/descriptor.ts'
import type {
  LedgerLimit,
  LedgerRow,
  Membership,
  PairState,
} from '../../../../shared/core/ledger/types.ts'
import type { RegionId, RegionLimit } from '../../../../shared/core/policy.ts'
import type { Counter } from './counters.ts'

/** Every limit of the plane at one revision, and the regions that take part. */
export interface Plane extends Membership {
  readonly revision: number
  readonly limits: ReadonlyMap<number, LedgerLimit>
  /** Number of the region's question that this answers; 0 where nobody asked. */
  readonly answers: number
}

export const EMPTY_PLANE: Plane = {
  revision: 0,
  members: [],
  formerMembers: [],
  leastIncarnations: {},
  limits: new Map(),
  answers: 0,
}

export interface Meta {
  readonly fence: number
  readonly incarnation: number
  readonly startUs: number
  readonly recovering: boolean
  readonly serving: boolean
}

/** All that a region's Redis stores: what its file or its replica holds of some instant. */
export interface RedisImage {
  meta: Meta
  version: number
  seqReserved: number
  leader: { readonly holder: string; readonly untilUs: number } | null
  plane: Plane
  limits: Map<number, RegionLimit>
  readonly counters: Map<CounterId, Counter>
  readonly rows: Map<CounterId, LedgerRow>
  readonly pairs: Map<RegionId, PairState>
  readonly hot: Set<CounterId>
}

export function emptyImage(): RedisImage {
  return {
    meta: { fence: 0, incarnation: 0, startUs: 0, recovering: false, serving: false },
    version: 0,
    seqReserved: 0,
    leader: null,
    plane: EMPTY_PLANE,
    limits: new Map(),
    counters: new Map(),
    rows: new Map(),
    pairs: new Map(),
    hot: new Set(),
  }
}

/** A copy that later writes do not reach. Everything but counters is replaced, never changed, when written. */
export function cloneImage(image: RedisImage): RedisImage {
  return {
    ...image,
    limits: new Map(image.limits),
    counters: new Map([...image.counters].map(([id, counter]) => [id, { ...counter }])),
    rows: new Map(image.rows),
    pairs: new Map(image.pairs),
    hot: new Set(image.hot),
  }
}
