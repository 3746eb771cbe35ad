/** Where a rule of a region can be left out: its Redis, its daemon and what is between them. */
export interface RegionMutant {
  /** An enforcer that meets a Redis without scripts loads them itself. */
  readonly enforcersLoad?: boolean
  /** Scripts count as loaded also under another replication id than the one in their text. */
  readonly ignoresReplicationId?: boolean
  /** Levels go on where they were when Redis comes back. */
  readonly levelsGoOn?: boolean
  /** The rows of a Redis that comes back are believed. */
  readonly trustsFile?: boolean
  /** A daemon loads the scripts before it has written its region's shares again. */
  readonly loadsFirst?: boolean
  /** A daemon's connection opens itself again, and what waited goes out over it. */
  readonly reconnects?: boolean
  /** A counter with loans expires like any other that is idle. */
  readonly unpins?: boolean
}

export const FAITHFUL_REGION: RegionMutant = {}
