/** What a comparison of the product with the model is given, keeps and gives back. */
import type { RegionRecord } from '../../shared/core/ledger/types.ts'
import type { ProductionRegion } from './production.ts'
import type { Message, Region, Scope } from './state.ts'

export interface CosimulationOptions {
  readonly seed: number
  readonly regions: number
  readonly forMs: number
  /** Other rules for the model than the product's: the two must then be seen to disagree. */
  readonly model?: Partial<Scope>
}

/** What happened, so that a test can tell that it was not nothing. */
export interface Moves {
  loans: number
  returns: number
  takenBack: number
  lapses: number
  restarts: number
  losses: number
  /** Recoveries that ended before their time. */
  answered: number
}

/** One region: as the product runs it, and as the model does. */
export interface Lane {
  readonly name: string
  readonly production: ProductionRegion
  model: Region
  rate: number
  offsetMs: number
  recoversAt: number
  demand: number
  admitted: number
  denied: number
}

/** A record on its way, in the words of both. */
export interface Parcel {
  readonly from: number
  readonly to: number
  readonly record: RegionRecord
  readonly message: Message
  readonly dueMs: number
}

/** Thrown where the product does what the model forbids. */
export class Disagreement extends Error {}
