import { compact, full, percent } from '../data/format.ts'
import type { LiveState } from '../data/live-state.ts'
import { linkTo } from '../data/route.ts'
import { auditOf, largestShareSum } from '../data/sums.ts'
import { Meter, type Tone } from './status.tsx'

/** The figures that must be looked at first: whether the limit holds, who is heard, what is denied. */
export function Meters({
  live,
  silent,
}: {
  readonly live: LiveState
  readonly silent: readonly string[]
}) {
  const regions = live.regions?.regions ?? []
  return (
    <dl class="meters">
      <OverAdmission live={live} />
      <ShareSum live={live} silent={silent} />
      <Meter
        label="Regions heard"
        value={`${regions.length - silent.length} of ${regions.length}`}
        tone={live.atMs === null ? 'idle' : silent.length === 0 ? 'good' : 'bad'}
        note={
          silent.length === 0 ? 'all report each second' : `cut off from here: ${silent.join(', ')}`
        }
      />
      <Revision live={live} />
      <Rates live={live} />
    </dl>
  )
}

function OverAdmission({ live }: { readonly live: LiveState }) {
  const audit = auditOf(live.regions?.regions ?? [])
  const label = 'Admitted over a limit'
  if (audit === null) {
    return <Meter label={label} value="–" tone="idle" note="no daemon has told yet" />
  }
  const { overAdmitted, alarms, by } = audit
  return (
    <Meter
      label={label}
      value={`${full(overAdmitted)} tokens`}
      tone={overAdmitted > 0 || alarms > 0 ? 'bad' : 'good'}
      note={`must be 0; audited by ${by === 1 ? '1 region' : `${by} regions`}${alarms > 0 ? `; alarms of a ledger: ${alarms}` : ''}`}
    />
  )
}

/** Regions speak at different instants, so a sum over the limit is no breach of it; the audit beside it says that. */
function ShareSum({ live, silent }: Parameters<typeof Meters>[0]) {
  const largest = largestShareSum(live.shares.values(), silent)
  if (largest === null && silent.length > 0) {
    const note = `not known while ${silent.join(', ')} cannot be heard`
    return <Meter label="All shares of a limit" value="–" tone="idle" note={note} />
  }
  if (largest === null) {
    return (
      <Meter
        label="All shares of a limit"
        value="100 %"
        tone="good"
        note="no key is hot: each region has its base, and the bases are the limit"
      />
    )
  }
  const { limit, key, ratio } = largest
  const tokens = key.regions.reduce((sum, one) => sum + one.share.tokens, 0)
  return (
    <Meter
      label="All shares of a limit"
      value={percent(ratio)}
      tone={ratio > 1 ? 'warn' : 'good'}
      note={
        <>
          {full(tokens)} of {full(limit.capacity)} tokens:{' '}
          <a
            href={linkTo('policies', [limit.domain, limit.policy], {
              limit: limit.limit,
              key: key.key,
            })}
          >
            {key.key}
          </a>
          {ratio > 1 ? ', as regions told it at different instants' : ', the hot key with most'}
        </>
      }
    />
  )
}

function Revision({ live }: { readonly live: LiveState }) {
  const { revision } = live
  if (revision === null) return <Meter label="Revision" value="–" tone="idle" note="loading" />
  const [tone, note] = rolloutOf(live, revision)
  return <Meter label="Revision" value={String(revision)} tone={tone} note={note} />
}

function rolloutOf({ regions, rollout }: LiveState, newest: number): readonly [Tone, string] {
  const refused = (rollout?.regions ?? []).filter(({ state }) => state === 'refused')
  if (refused.length > 0) {
    return ['bad', `refused: ${refused.map((one) => `${one.region} (${one.reason})`).join(', ')}`]
  }
  const behind = (regions?.regions ?? []).filter((one) => (one.appliedRevision ?? 0) < newest)
  if (behind.length === 0) return ['good', 'applied in every region']
  return ['warn', `not yet in ${behind.map(({ region }) => region).join(', ')}`]
}

function Rates({ live }: { readonly live: LiveState }) {
  const rates = [...live.rates.values()]
  const sum = (of: 'admitted' | 'denied'): number => rates.reduce((all, one) => all + one[of], 0)
  return (
    <Meter
      label="Admitted a second"
      value={compact(sum('admitted'))}
      tone="idle"
      note={
        <a href={linkTo('keys', [], { by: 'denial' })}>{compact(sum('denied'))} denied a second</a>
      }
    />
  )
}
