import type { UsageHistoryReply } from '../../../../shared/protocol/reading-replies.ts'
import type { ViewProps } from '../app.tsx'
import { clock, compact } from '../data/format.ts'
import { usePoll } from '../data/poll.ts'
import { Chart } from '../parts/chart.tsx'
import { Table } from '../parts/table.tsx'

const RESOLUTIONS = ['second', 'minute', 'hour'] as const
const BUCKETS = 120
const BUCKET_MS = { second: 1_000, minute: 60_000, hour: 3_600_000 } as const

/** What was admitted, denied and asked for in vain, over seconds, minutes or hours. */
export function UsageHistory(
  props: ViewProps & {
    readonly domain: string
    readonly policy: string
    readonly keyName: string | null
    readonly linkFor: (changed: Readonly<Record<string, string | null>>) => string
  },
) {
  const { api, route, domain, policy, keyName, linkFor } = props
  const asked = route.query.get('over')
  const resolution = RESOLUTIONS.find((one) => one === asked) ?? 'second'
  const query = new URLSearchParams({ domain, policy, resolution, limit: String(BUCKETS) })
  if (keyName !== null) query.set('key', keyName)
  const limitName = route.query.get('limit')
  if (limitName !== null) query.set('limitName', limitName)
  const everyMs = resolution === 'second' ? 2_000 : 15_000
  const history = usePoll<UsageHistoryReply>(api, `/v1/usage/history?${query}`, everyMs)
  const items = history.data?.items ?? []
  const perSecond = (value: number): number => (1_000 * value) / BUCKET_MS[resolution]
  const line = (of: 'admitted' | 'denied' | 'unmet') =>
    items.map((item) => perSecond(item.total[of]))
  return (
    <>
      <h2>Usage{keyName === null ? '' : ` of ${keyName}`}</h2>
      <nav class="tabs" aria-label="Resolution">
        {RESOLUTIONS.map((one) => (
          <a
            key={one}
            href={linkFor({ over: one })}
            aria-current={one === resolution ? 'true' : undefined}
          >
            by {one}
          </a>
        ))}
      </nav>
      {history.problem !== null && <p class="problem">{history.problem}</p>}
      {history.data?.isPartial && (
        <p class="problem">Postgres does not answer: older figures may be missing.</p>
      )}
      <Chart
        label="Tokens a second"
        times={items.map((item) => Date.parse(item.startsAt) / 1_000)}
        series={[
          { name: 'admitted', values: line('admitted') },
          { name: 'denied', values: line('denied') },
          { name: 'unmet demand (estimate)', values: line('unmet') },
        ]}
      />
      <details>
        <summary>The same as a table</summary>
        <Table
          caption={`Usage by ${resolution}`}
          empty="Nothing was used."
          rows={items.slice(-60).reverse()}
          keyOf={(item) => `${item.limitId} ${item.startsAt}`}
          columns={[
            { name: 'From', cell: (item) => clock(item.startsAt) },
            { name: 'Admitted', isNumber: true, cell: (item) => compact(item.total.admitted) },
            { name: 'Denied', isNumber: true, cell: (item) => compact(item.total.denied) },
            { name: 'Unmet', isNumber: true, cell: (item) => compact(item.total.unmet) },
            {
              name: 'By region',
              cell: (item) =>
                item.regions.map((one) => `${one.region} ${compact(one.admitted)}`).join(', '),
            },
          ]}
        />
      </details>
    </>
  )
}
