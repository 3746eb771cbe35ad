import type {
  RegionReply,
  SharesReply,
  UsageReply,
} from '../../../../shared/protocol/admin-replies.ts'
import type { LagsReply, UsageTopReply } from '../../../../shared/protocol/reading-replies.ts'
import type { ViewProps } from '../app.tsx'
import { age, compact, full, percent } from '../data/format.ts'
import { usePoll } from '../data/poll.ts'
import { largestShareSum, ratesByRegion } from '../data/sums.ts'
import { Freshness, useIsStale } from '../parts/freshness.tsx'
import { KeyLink } from '../parts/key-link.tsx'
import { Meter, Status, type Tone } from '../parts/status.tsx'
import { Table } from '../parts/table.tsx'

const LIVE_MS = 1_000

/** Regions speak each second: one that has not for this long is cut off, or its daemon is down. */
const SILENT_AFTER_MS = 2_000
const SLOW_MS = 3_000

/** Is every limit held, does every region decide, and who is being denied? */
export function Overview({ api }: ViewProps) {
  const regions = usePoll<{ items: RegionReply[] }>(api, '/v1/regions?limit=100', LIVE_MS / 2)
  const lags = usePoll<LagsReply>(api, '/v1/lags', LIVE_MS)
  const shares = usePoll<SharesReply>(api, '/v1/shares?limit=100&keys=100', LIVE_MS)
  const usage = usePoll<UsageReply>(api, '/v1/usage?limit=100', LIVE_MS)
  const denied = usePoll<UsageTopReply>(api, '/v1/usage/top?by=denial&limit=8', SLOW_MS)
  const all = [regions, lags, shares, usage]
  const isStale = useIsStale(all)
  const rates = ratesByRegion(usage.data)
  return (
    <div class={isStale ? 'stale' : undefined}>
      <div class="head">
        <h1>Overview</h1>
        <Freshness of={all} />
      </div>
      <Meters regions={regions.data?.items ?? []} shares={shares.data} rates={rates} />
      <h2>Regions</h2>
      <ul class="columns" aria-label="Regions">
        {(regions.data?.items ?? []).map((region) => (
          <RegionColumn
            key={region.id}
            region={region}
            lags={lags.data}
            rate={rates.get(region.id)}
          />
        ))}
      </ul>
      <h2>Denied most in the last minute</h2>
      <DeniedKeys top={denied.data} />
    </div>
  )
}

function Meters(props: {
  readonly regions: readonly RegionReply[]
  readonly shares: SharesReply | null
  readonly rates: ReturnType<typeof ratesByRegion>
}) {
  const { regions, shares, rates } = props
  const largest = largestShareSum(shares)
  const heard = regions.filter((region) => !isSilent(region)).length
  const newest = Math.max(0, ...regions.map((region) => region.health.appliedRevision ?? 0))
  const behind = regions.filter((region) => (region.health.appliedRevision ?? 0) < newest)
  const totals = [...rates.values()]
  const sum = (of: 'admitted' | 'denied'): number => totals.reduce((all, one) => all + one[of], 0)
  return (
    <dl class="meters">
      <Meter
        label="Shares over the limit"
        value={largest === null ? '–' : `${full(largest.overTokens)} tokens`}
        tone={largest === null ? 'idle' : largest.overTokens > 0 ? 'bad' : 'good'}
        note={
          largest === null
            ? 'no key is hot'
            : `must be 0; the largest sum of shares is ${percent(largest.ratio)} of its limit (${largest.name})`
        }
      />
      <Meter
        label="Regions heard"
        value={`${heard} of ${regions.length}`}
        tone={heard === regions.length ? 'good' : 'bad'}
        note={heard === regions.length ? 'all report each second' : 'the others keep to their base'}
      />
      <Meter
        label="Revision"
        value={String(newest)}
        tone={behind.length === 0 ? 'good' : 'warn'}
        note={
          behind.length === 0
            ? 'applied in every region'
            : `not yet in ${behind.map((region) => region.id).join(', ')}`
        }
      />
      <Meter
        label="Admitted a second"
        value={compact(sum('admitted'))}
        tone="idle"
        note={`${compact(sum('denied'))} denied a second`}
      />
    </dl>
  )
}

function RegionColumn(props: {
  readonly region: RegionReply
  readonly lags: LagsReply | null
  readonly rate: { admitted: number; denied: number } | undefined
}) {
  const { region, lags, rate } = props
  const { health } = region
  const heard = lags?.regions.find((one) => one.region === region.id)
  const pairs = lags?.pairs.filter((pair) => pair.to === region.id) ?? []
  const [tone, word] = stateOf(region)
  return (
    <li class="column">
      <h3>{region.id}</h3>
      <Status tone={tone}>{word}</Status>
      <dl>
        <dt>Admitted a second</dt>
        <dd>{rate ? compact(rate.admitted) : '–'}</dd>
        <dt>Denied a second</dt>
        <dd>{rate ? compact(rate.denied) : '–'}</dd>
        <dt>Hungry keys</dt>
        <dd>{heard ? heard.hungryKeys : '–'}</dd>
        <dt>Revision</dt>
        <dd>{health.appliedRevision ?? '–'}</dd>
        <dt>Store</dt>
        <dd>{heard?.store ?? '–'}</dd>
        <dt>Bus</dt>
        <dd>{heard?.bus ?? '–'}</dd>
        {pairs.map((pair) => (
          <LagLine key={pair.from} from={pair.from} lagMs={pair.lagMs} />
        ))}
      </dl>
      {region.move !== null && (
        <p class="hint">
          {region.state}: {region.move.limitsLeft} limits left
          {region.move.awaited.length > 0 && `, waiting for ${region.move.awaited.join(', ')}`}
        </p>
      )}
    </li>
  )
}

function LagLine(props: { readonly from: string; readonly lagMs: number | null }) {
  const { from, lagMs } = props
  const isLate = lagMs === null || lagMs > 3_000
  return (
    <>
      <dt>Lag to {from}</dt>
      <dd>
        {isLate ? (
          <Status tone="bad">{lagMs === null ? 'not heard' : age(lagMs)}</Status>
        ) : (
          `${lagMs} ms`
        )}
      </dd>
    </>
  )
}

function stateOf(region: RegionReply): readonly [Tone, string] {
  const { health, state } = region
  if (health.ageMs === null) return ['bad', 'not heard yet']
  if (isSilent(region)) return ['bad', `cut off, last heard ${age(health.ageMs)} ago`]
  if (health.isRecovering) return ['warn', 'recovering']
  if (state !== 'active') return ['warn', state]
  return ['good', 'reporting']
}

function isSilent({ health }: RegionReply): boolean {
  return health.ageMs === null || health.ageMs > SILENT_AFTER_MS
}

function DeniedKeys({ top }: { readonly top: UsageTopReply | null }) {
  const rows = (top?.items ?? []).filter((item) => item.total.denied > 0)
  return (
    <Table
      caption="Keys that were denied most in the last minute"
      empty="Nothing was denied."
      rows={rows}
      keyOf={(row) => `${row.limitId} ${row.key}`}
      columns={[
        { name: 'Key', cell: (row) => <KeyLink of={row} /> },
        { name: 'Policy', cell: (row) => `${row.domain} / ${row.policy}` },
        { name: 'Denied', isNumber: true, cell: (row) => compact(row.total.denied) },
        { name: 'Admitted', isNumber: true, cell: (row) => compact(row.total.admitted) },
        {
          name: 'Where',
          cell: (row) =>
            row.regions
              .filter((one) => one.denied > 0)
              .map((one) => `${one.region} ${compact(one.denied)}`)
              .join(', '),
        },
        { name: 'Why', cell: (row) => whyDenied(row) },
      ]}
    />
  )
}

function whyDenied(row: UsageTopReply['items'][number]): string {
  if (row.capacity === 0) return 'the policy denies everything'
  const limit = `${compact(row.capacity)} a window`
  if (row.isHungry) return `demand is over the share of a region; limit ${limit}`
  return `over the limit of ${limit}`
}
