import type { RecordRow, RegionRecord } from '../../shared/core/ledger/types.ts'
import type { RecordSince } from '../../shared/core/ports.ts'
import { encodeRecord } from '../../shared/protocol/record-frame.ts'
import { RecordWriter } from '../../shared/protocol/record-writer.ts'

/** A record of us-east-1 with nothing in it, with valid defaults. */
export function aRecord(
  change: Partial<RegionRecord> & { readonly seq?: number } = {},
): RegionRecord {
  const { seq = 1, ...fields } = change
  return {
    from: 'us-east-1',
    mark: { incarnation: 1, fence: 1, seq },
    policyRevision: 1,
    recovering: false,
    adopted: {},
    acks: {},
    pairs: {},
    rows: [],
    usage: [],
    ...fields,
  }
}

/** `count` rows of different keys of limit 7. */
export function recordRows(count: number): readonly RecordRow[] {
  return Array.from({ length: count }, (_, i) => ({
    id: `{04s}7.0:tenant=customer-number-${i}`,
    share: 600_000,
    demand: 1_000,
    hungry: false,
    admitted: i,
    denied: 0,
    returned: 0,
    quarantined: 0,
    lent: { 'eu-west-1': [1, 100, 0] },
    gaveBack: {},
  }))
}

/** The messages that carry a record whole. */
export function payloadsOf(record: RegionRecord): readonly Uint8Array[] {
  return encodeRecord(new RecordWriter().next(record, NOTHING_KNOWN))
}

export const NOTHING_KNOWN: RecordSince = { rows: -1, usage: -1 }
