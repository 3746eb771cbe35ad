import type { AuditListReply } from '../../../../shared/protocol/admin-replies.ts'
import type { UsageHistoryReply } from '../../../../shared/protocol/reading-replies.ts'
import type { ViewProps } from '../app.tsx'
import { clock, compact, dayAndTime } from '../data/format.ts'
import {
  BUCKET_MS,
  type Bucket,
  changesPath,
  filledHistory,
  markedSince,
  marksOf,
  RESOLUTIONS,
  type Resolution,
  rateOf,
  spanOf,
} from '../data/history.ts'
import { usePoll } from '../data/poll.ts'
import { linkTo } from '../data/route.ts'
import { Chart, colourOf } from '../parts/chart.tsx'
import { Freshness } from '../parts/freshness.tsx'
import { Table } from '../parts/table.tsx'

/** Rows of the table under the charts; the charts have all. */
const ROWS_MAX = 60

/** What was admitted, denied and asked for in vain, over seconds, minutes or hours, with what was changed meanwhile. */
export function UsageHistory(
  props: Pick<ViewProps, 'api' | 'route'> & {
    readonly domain: string
    readonly policy: string
    readonly limitName: string
    readonly members: readonly string[]
    readonly keyName: string | null
    readonly linkFor: (changed: Readonly<Record<string, string | null>>) => string
  },
) {
  const { api, route, domain, policy, limitName, members, keyName, linkFor } = props
  const resolution = RESOLUTIONS.find((one) => one === route.query.get('over')) ?? 'second'
  const held = spanOf(route.query)
  const query = new URLSearchParams({ domain, policy, resolution, limitName, ...held })
  if (keyName !== null) query.set('key', keyName)
  const everyMs = held === null && resolution === 'second' ? 1_000 : 15_000
  const history = usePoll<UsageHistoryReply>(api, `/v1/usage/history?${query}`, everyMs)
  const audit = usePoll<AuditListReply>(api, changesPath(domain, policy, held), 5_000)
  const filled = filledHistory(history.data)
  const marks = marksOf(audit.data?.items ?? [])
  const shown = history.data && { from: history.data.from, to: history.data.to }
  return (
    <section aria-labelledby="usage">
      <div class="head">
        <h2 id="usage">Usage{keyName === null ? ' of all keys' : ` of ${keyName}`}</h2>
        {held === null ? (
          <Freshness of={[history]} />
        ) : (
          <p class="freshness stale">
            Held: {dayAndTime(held.from)} to {dayAndTime(held.to)}.{' '}
            <a href={linkFor({ from: null, to: null })}>Back to live</a>
          </p>
        )}
      </div>
      <nav class="tabs" aria-label="Resolution">
        {RESOLUTIONS.map((one) => (
          <a
            key={one}
            href={linkFor({ over: one, from: null, to: null })}
            aria-current={one === resolution ? 'true' : undefined}
          >
            by {one}
          </a>
        ))}
        {keyName !== null && <a href={linkFor({ key: null })}>of all keys</a>}
        {held === null && shown && (
          <a href={linkFor({ ...shown, over: resolution, limit: limitName })}>hold this view</a>
        )}
      </nav>
      {history.problem !== null && <p class="problem">{history.problem}</p>}
      {history.data?.isPartial && (
        <p class="problem">Postgres does not answer: older figures may be missing.</p>
      )}
      <Unmarked since={markedSince(audit.data, history.data)} />
      <HistoryCharts {...{ resolution, filled, marks, members }} />
      <HistoryTable {...{ resolution, filled, marks }} />
    </section>
  )
}

function Unmarked({ since }: { readonly since: string | null }) {
  if (since === null) return null
  return <p class="hint">So many changes that only those since {dayAndTime(since)} are marked.</p>
}

interface Shown {
  readonly resolution: Resolution
  readonly filled: readonly Bucket[]
  readonly marks: ReturnType<typeof marksOf>
}

function HistoryCharts(props: Shown & { readonly members: readonly string[] }) {
  const { filled, marks, members } = props
  const times = filled.map(({ atMs }) => atMs / 1_000)
  const line = (of: 'admitted' | 'denied' | 'unmet') =>
    filled.map((bucket) => rateOf(bucket, bucket.item?.total[of] ?? 0))
  const regions = [
    ...new Set(filled.flatMap(({ item }) => item?.regions.map((one) => one.region) ?? [])),
  ].sort()
  return (
    <div class="side-by-side">
      <Chart
        label="Tokens a second"
        times={times}
        series={[
          { name: 'admitted', values: line('admitted') },
          { name: 'denied', values: line('denied') },
          { name: 'unmet demand (estimate)', values: line('unmet') },
        ]}
        marks={marks}
      />
      <Chart
        label="Admitted by region, tokens a second"
        isStacked
        times={times}
        series={regions.map((name) => ({
          name,
          colour: colourOf(name, members),
          values: filled.map((bucket) => {
            const own = bucket.item?.regions.find((one) => one.region === name)
            return rateOf(bucket, own?.admitted ?? 0)
          }),
        }))}
        marks={marks}
      />
    </div>
  )
}

function HistoryTable({ resolution, filled, marks }: Shown) {
  return (
    <details>
      <summary>The same as a table</summary>
      <Table
        caption={`Usage by ${resolution}`}
        empty="Nothing was used."
        rows={filled.filter(isTold).slice(-ROWS_MAX).reverse()}
        keyOf={({ atMs }) => String(atMs)}
        columns={[
          { name: 'From', cell: ({ atMs }) => startOf(atMs, resolution) },
          {
            name: 'Admitted',
            isNumber: true,
            cell: ({ item }) => compact(item?.total.admitted ?? 0),
          },
          {
            name: 'Denied',
            isNumber: true,
            cell: ({ item }) => compact(item?.total.denied ?? 0),
          },
          { name: 'Unmet', isNumber: true, cell: ({ item }) => compact(item?.total.unmet ?? 0) },
          {
            name: 'By region, admitted / denied',
            cell: ({ item }) =>
              item?.regions
                .map((one) => `${one.region} ${compact(one.admitted)} / ${compact(one.denied)}`)
                .join(', ') ?? '',
          },
          {
            name: 'Changed',
            cell: ({ atMs }) =>
              marks
                .filter(
                  ({ atS }) => atS * 1_000 >= atMs && atS * 1_000 < atMs + BUCKET_MS[resolution],
                )
                .map(({ name, revision }) => (
                  <a key={name} href={linkTo('changes', [String(revision)])}>
                    {name}
                  </a>
                )),
          },
        ]}
      />
    </details>
  )
}

function startOf(atMs: number, resolution: Resolution): string {
  const iso = new Date(atMs).toISOString()
  return resolution === 'hour' ? dayAndTime(iso) : clock(iso)
}

function isTold({ item, elapsedMs }: Bucket): boolean {
  return item !== null || elapsedMs > 0
}
