import type { RecordRow, RegionRecord } from '../../../shared/core/ledger/types.ts'

let seq = 0

/** A record of us-east-1, newer than every one made before it. */
export function aRecord(changes: Partial<RegionRecord> = {}): RegionRecord {
  return {
    from: 'us-east-1',
    mark: { incarnation: 1, fence: 1, seq: ++seq },
    policyRevision: 1,
    recovering: false,
    adopted: {},
    acks: {},
    pairs: {},
    rows: [],
    usage: [],
    ...changes,
  }
}

export function aRow(id: string, changes: Partial<RecordRow> = {}): RecordRow {
  return {
    id,
    share: 600_000,
    demand: 5_000_000,
    hungry: false,
    admitted: 10,
    denied: 0,
    returned: 0,
    quarantined: 0,
    lent: {},
    gaveBack: {},
    ...changes,
  }
}
