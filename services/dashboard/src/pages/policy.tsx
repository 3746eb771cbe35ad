import { useEffect, useState } from 'preact/hooks'
import type { PolicyReply, SharesReply } from '../../../../shared/protocol/admin-replies.ts'
import type { UsageHistoryReply } from '../../../../shared/protocol/reading-replies.ts'
import type { ViewProps } from '../app.tsx'
import { age, compact, full } from '../data/format.ts'
import { usePoll } from '../data/poll.ts'
import { linkTo } from '../data/route.ts'
import { type SharePoint, withPoint } from '../data/sums.ts'
import { Chart } from '../parts/chart.tsx'
import { Flows } from '../parts/flows.tsx'
import { Freshness, useIsStale } from '../parts/freshness.tsx'
import { Status } from '../parts/status.tsx'
import { Table } from '../parts/table.tsx'
import { limitsLine } from './policies.tsx'
import { UsageHistory } from './usage-history.tsx'

type LimitShares = SharesReply['limits'][number]
type KeyShares = LimitShares['keys'][number]

/** One policy: how its limit is split at present, who lends to whom, and what was admitted and denied. */
export function PolicyPage(
  props: ViewProps & { readonly domain: string; readonly policy: string },
) {
  const { api, route, domain, policy } = props
  const names = new URLSearchParams({ domain, policy })
  const path = `/v1/domains/${encodeURIComponent(domain)}/policies/${encodeURIComponent(policy)}`
  const described = usePoll<PolicyReply>(api, path, 5_000)
  const shares = usePoll<SharesReply>(api, `/v1/shares?${names}&keys=200`, 1_000)
  const isStale = useIsStale([shares])
  const limits = shares.data?.limits ?? []
  const limit = limits.find((one) => one.limit === route.query.get('limit')) ?? limits[0]
  const asked = route.query.get('key')
  const key =
    limit?.keys.find((one) => one.key === asked) ?? (asked === null ? limit?.keys[0] : undefined)
  const linkFor = (changed: Readonly<Record<string, string | null>>): string =>
    linkTo('policies', [domain, policy], { ...Object.fromEntries(route.query), ...changed })
  return (
    <div class={isStale ? 'stale' : undefined}>
      <div class="head">
        <h1>
          {domain} / {policy}
        </h1>
        <Freshness of={[described, shares]} />
      </div>
      {described.data && <About policy={described.data} />}
      {limit && (
        <Choices limits={limits} limit={limit} chosen={key?.key ?? asked} linkFor={linkFor} />
      )}
      {limit && key && (
        <Split
          key={`${limit.limitId} ${key.key}`}
          limit={limit}
          shares={key}
          at={shares.data?.at ?? ''}
        />
      )}
      {limit && !key && (
        <p class="hint">
          {asked === null
            ? 'No key is hot: every region decides by its base.'
            : `${asked} is not hot now: every region decides it by its base.`}
        </p>
      )}
      <UsageHistory {...props} keyName={asked} linkFor={linkFor} />
    </div>
  )
}

export type HistoryReply = UsageHistoryReply

function About({ policy }: { readonly policy: PolicyReply }) {
  return (
    <div class="about">
      <p>
        <strong>{limitsLine(policy)}</strong>, {policy.mode}
        {policy.shadow && ', shadow: counts and denies nothing'}, when Redis is away:{' '}
        {policy.onStoreFailure}. Revision {policy.revision}.
      </p>
      {policy.description !== '' && <p>{policy.description}</p>}
      {policy.warnings.map((warning) => (
        <p class="problem" key={warning.field}>
          {warning.field}: {warning.message}
          {warning.fix && ` ${warning.fix}`}
        </p>
      ))}
    </div>
  )
}

function Choices(props: {
  readonly limits: readonly LimitShares[]
  readonly limit: LimitShares
  readonly chosen: string | null
  readonly linkFor: (changed: Readonly<Record<string, string | null>>) => string
}) {
  const { limits, limit, chosen, linkFor } = props
  const go = (changed: Readonly<Record<string, string | null>>): void => {
    location.hash = linkFor(changed)
  }
  const listed = limit.keys.some(({ key }) => key === chosen)
  return (
    <div class="choices">
      {limits.length > 1 && (
        <label>
          Limit
          <select
            value={limit.limit}
            onChange={(event) => go({ limit: event.currentTarget.value, key: null })}
          >
            {limits.map((one) => (
              <option key={one.limit}>{one.limit}</option>
            ))}
          </select>
        </label>
      )}
      <label>
        Key
        <select value={chosen ?? ''} onChange={(event) => go({ key: event.currentTarget.value })}>
          {!listed && <option value={chosen ?? ''}>{chosen ?? 'none is hot'}</option>}
          {limit.keys.map(({ key }) => (
            <option key={key}>{key}</option>
          ))}
        </select>
      </label>
      {limit.keysLeftOut > 0 && <span class="hint">{limit.keysLeftOut} more hot keys</span>}
    </div>
  )
}

function Split(props: {
  readonly limit: LimitShares
  readonly shares: KeyShares
  readonly at: string
}) {
  const { limit, shares, at } = props
  const [points, setPoints] = useState<readonly SharePoint[]>([])
  const { key, regions } = shares
  // A point for each answer, which `at` tells apart.
  useEffect(() => {
    const tokens = new Map(regions.map((one) => [one.region, one.share.tokens]))
    setPoints((last) => withPoint(last, { atS: Math.floor(Date.parse(at) / 1_000), tokens }))
  }, [at, key])
  const names = regions.map(({ region }) => region)
  const sum = regions.reduce((all, one) => all + one.share.tokens, 0)
  return (
    <>
      <h2>Split of {key}</h2>
      <p class="sum">
        <strong>
          {full(sum)} of {full(limit.capacity)}
        </strong>{' '}
        tokens are some region's share{' '}
        {sum > limit.capacity ? (
          <Status tone="bad">over the limit: this is a bug</Status>
        ) : (
          <Status tone="good">never over the limit</Status>
        )}
      </p>
      <div class="side-by-side">
        <Chart
          label="Share by region, tokens"
          isStacked
          times={points.map((point) => point.atS)}
          series={names.map((name) => ({
            name,
            values: points.map((point) => point.tokens.get(name) ?? null),
          }))}
          ceiling={{ name: 'limit', value: limit.capacity }}
        />
        <Flows regions={names} loans={shares.loans} capacity={limit.capacity} />
      </div>
      <Table
        caption={`Shares of ${key} by region`}
        empty="No region reports this key."
        rows={regions}
        keyOf={(row) => row.region}
        columns={[
          { name: 'Region', cell: (row) => row.region },
          { name: 'Share', isNumber: true, cell: (row) => full(row.share.tokens) },
          { name: 'Base', isNumber: true, cell: (row) => full(row.base.tokens) },
          { name: 'Demand a second', isNumber: true, cell: (row) => compact(row.demandPerSecond) },
          { name: 'Admitted', isNumber: true, cell: (row) => compact(row.admitted) },
          { name: 'Denied', isNumber: true, cell: (row) => compact(row.denied) },
          {
            name: 'State',
            cell: (row) =>
              row.ageMs > 3_500 ? (
                <Status tone="bad">{`as of ${age(row.ageMs)} ago`}</Status>
              ) : row.isHungry ? (
                <Status tone="warn">hungry: denies, and could use more</Status>
              ) : (
                <Status tone="good">has what it needs</Status>
              ),
          },
        ]}
      />
      <Table
        caption={`Loans of ${key}`}
        empty="Nothing is lent."
        rows={shares.loans}
        keyOf={(loan) => `${loan.lender} ${loan.borrower}`}
        columns={[
          { name: 'Lender', cell: (loan) => loan.lender },
          { name: 'Borrower', cell: (loan) => loan.borrower },
          { name: 'Tokens', isNumber: true, cell: (loan) => full(loan.tokens) },
          {
            name: 'Lapses unless extended',
            cell: (loan) => (loan.deadline === null ? 'not known' : untilText(loan.deadline, at)),
          },
        ]}
      />
    </>
  )
}

function untilText(deadline: string, at: string): string {
  const leftMs = Date.parse(deadline) - Date.parse(at)
  return leftMs <= 0 ? 'now' : `in ${age(leftMs)}`
}
