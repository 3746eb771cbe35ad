import type { Registry } from 'prom-client'
import { counter, gauge, histogram } from '../../shared/runtime/metrics.ts'

/** The daemon's metrics, all of them. What mirrors the ledger is set by `showLedger`. */
export type SyncMetrics = ReturnType<typeof createSyncMetrics>

/** Steps take a millisecond or a few; one beyond a second is a Redis that hangs. */
const STEP_SECONDS_BUCKETS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5]

/** `isBusConnected` is asked at each reading. */
export function createSyncMetrics(registry: Registry, isBusConnected: () => boolean) {
  return {
    ...recordMetrics(registry, isBusConnected),
    ...loanMetrics(registry),
    ...leaderMetrics(registry),
    ...policyMetrics(registry),
  }
}

function recordMetrics(registry: Registry, isBusConnected: () => boolean) {
  return {
    convergenceLag: gauge(registry, {
      name: 'quotaplane_convergence_lag_seconds',
      help: 'Age of the newest record heard from a peer.',
      labelNames: ['peer'],
    }),
    recordsSent: counter(registry, {
      name: 'quotaplane_records_sent_total',
      help: 'Records of this region handed to NATS, whole or as what changed.',
      labelNames: ['form'],
    }),
    recordBytes: counter(registry, {
      name: 'quotaplane_records_sent_bytes_total',
      help: 'Bytes of the records handed to NATS.',
    }),
    recordsUnsent: counter(registry, {
      name: 'quotaplane_records_unsent_total',
      help: 'Records that were not sent: NATS away, or the record too large.',
      labelNames: ['reason'],
    }),
    recordsReceived: counter(registry, {
      name: 'quotaplane_records_received_total',
      help: 'Whole records received from a peer.',
      labelNames: ['peer'],
    }),
    recordsRefused: counter(registry, {
      name: 'quotaplane_records_refused_total',
      help: 'Messages on the record subjects that were not handed on.',
      labelNames: ['peer', 'reason'],
    }),
    recordGaps: counter(registry, {
      name: 'quotaplane_record_gaps_total',
      help: 'Times that a peer was asked for a whole record because one that others rest on was missed.',
      labelNames: ['peer'],
    }),
    busConnected: gauge(registry, {
      name: 'quotaplane_bus_connected',
      help: '1 while NATS can be reached.',
      collect() {
        this.set(isBusConnected() ? 1 : 0)
      },
    }),
  } as const
}

function loanMetrics(registry: Registry) {
  return {
    loansOut: gauge(registry, {
      name: 'quotaplane_loans_out_units',
      help: 'Units lent to a peer and not yet back, all keys together (a million units are one limit).',
      labelNames: ['peer'],
    }),
    loansIn: gauge(registry, {
      name: 'quotaplane_loans_in_units',
      help: 'Units borrowed from a peer under a lease that runs, all keys together.',
      labelNames: ['peer'],
    }),
    loanRemaining: gauge(registry, {
      name: 'quotaplane_loans_in_remaining_seconds',
      help: 'Time until the lease on what was borrowed from a peer ends; 0 when nothing may be used.',
      labelNames: ['peer'],
    }),
    quarantined: gauge(registry, {
      name: 'quotaplane_quarantined_units',
      help: 'Units taken back from lapsed loans that may not be used yet.',
    }),
    trackedKeys: gauge(registry, {
      name: 'quotaplane_tracked_keys',
      help: 'Keys with a ledger of their own.',
    }),
    untrackedKeys: gauge(registry, {
      name: 'quotaplane_untracked_keys',
      help: 'Keys that ran short while the greatest number was tracked; they stay on their base part.',
    }),
    hungryKeys: gauge(registry, {
      name: 'quotaplane_hungry_keys',
      help: 'Tracked keys that deny while their demand exceeds their share.',
    }),
    unitsLent: counter(registry, {
      name: 'quotaplane_lent_units_total',
      help: 'Units lent to a peer.',
      labelNames: ['peer'],
    }),
    unitsReturned: counter(registry, {
      name: 'quotaplane_returned_units_total',
      help: 'Borrowed units given back to a peer.',
      labelNames: ['peer'],
    }),
    reclaims: counter(registry, {
      name: 'quotaplane_reclaims_total',
      help: 'Times that everything lent to a peer was taken back.',
      labelNames: ['peer'],
    }),
    lapses: counter(registry, {
      name: 'quotaplane_lapses_total',
      help: 'Times that what was borrowed from a peer lapsed for want of an acknowledgement.',
      labelNames: ['peer'],
    }),
    shareSum: gauge(registry, {
      name: 'quotaplane_share_sum_ratio',
      help: 'Largest sum of all regions’ shares of one key over the limit, by records that belong together; above 1 is over-admission.',
    }),
    overAdmission: gauge(registry, {
      name: 'quotaplane_over_admission_tokens',
      help: 'Tokens that all regions together admitted of one key beyond its limit, by their own counts; must be 0.',
    }),
    suspectPeers: gauge(registry, {
      name: 'quotaplane_suspect_peer',
      help: '1 for a peer that lately said what no honest ledger says; that is not acted on.',
      labelNames: ['peer'],
    }),
    usage: gauge(registry, {
      name: 'quotaplane_usage_tokens',
      help: 'Tokens admitted less those returned in the running window, by this region (own) and its peers (foreign).',
      labelNames: ['limit', 'scope'],
    }),
    alarms: gauge(registry, {
      name: 'quotaplane_ledger_alarms',
      help: 'Figures in records that only a bug or a forger explains, since this process started.',
      labelNames: ['alarm'],
    }),
  } as const
}

function leaderMetrics(registry: Registry) {
  return {
    leading: gauge(registry, {
      name: 'quotaplane_leading',
      help: '1 while this daemon holds the lease on its region; 0 while it waits.',
    }),
    inDoubt: gauge(registry, {
      name: 'quotaplane_in_doubt',
      help: '1 from a write without a reply until Redis was read again under a new fence.',
    }),
    recovering: gauge(registry, {
      name: 'quotaplane_recovering',
      help: '1 while the region uses nothing, having lost its memory.',
    }),
    fence: gauge(registry, {
      name: 'quotaplane_fence',
      help: 'Fence of this daemon’s writes.',
    }),
    incarnation: gauge(registry, {
      name: 'quotaplane_incarnation',
      help: 'Incarnation of the region’s counters.',
    }),
    corruptShares: counter(registry, {
      name: 'quotaplane_corrupt_shares_total',
      help: 'Shares of hot keys that were found corrupt in Redis, admitted nothing, and were written again.',
    }),
    sessions: counter(registry, {
      name: 'quotaplane_sessions_total',
      help: 'Sessions over the region’s Redis, by what the daemon knew of its past.',
      labelNames: ['continuity'],
    }),
    sessionFailures: counter(registry, {
      name: 'quotaplane_session_failures_total',
      help: 'Sessions that ended or did not come about, by error code.',
      labelNames: ['code'],
    }),
    stepSeconds: histogram(registry, {
      name: 'quotaplane_step_seconds',
      help: 'Time to handle one event with all its writes.',
      labelNames: ['event'],
      buckets: STEP_SECONDS_BUCKETS,
    }),
    clockJumps: counter(registry, {
      name: 'quotaplane_store_clock_jumps_total',
      help: 'Readings at which the clock of Redis had moved against this process’s by more than 50 ms.',
    }),
  } as const
}

function policyMetrics(registry: Registry) {
  return {
    policyRevision: gauge(registry, {
      name: 'quotaplane_policy_revision',
      help: 'Newest revision of the policies that this region has read.',
    }),
    policyVersion: gauge(registry, {
      name: 'quotaplane_policy_version',
      help: 'Version of the policies that enforcers of this region decide by.',
    }),
    policyPulls: counter(registry, {
      name: 'quotaplane_policy_pulls_total',
      help: 'Times that admin was asked for changes.',
      labelNames: ['outcome'],
    }),
    stockQuestions: counter(registry, {
      name: 'quotaplane_stock_questions_total',
      help: 'Times that admin was asked for tokens of long windows.',
      labelNames: ['outcome'],
    }),
    epoch: gauge(registry, {
      name: 'quotaplane_base_epoch',
      help: 'Epoch of a limit’s base split as this region has adopted it.',
      labelNames: ['limit'],
    }),
  } as const
}
