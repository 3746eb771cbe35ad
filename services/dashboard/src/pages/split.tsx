import { useEffect, useState } from 'preact/hooks'
import { age, compact, full } from '../data/format.ts'
import type { KeyShares } from '../data/live-state.ts'
import { isSilent, type SharePoint, silentOf, withPoint } from '../data/sums.ts'
import { Bars } from '../parts/bars.tsx'
import { Chart, colourOf } from '../parts/chart.tsx'
import { Flows, type Loan, lapseText } from '../parts/flows.tsx'
import { Status } from '../parts/status.tsx'
import { Table } from '../parts/table.tsx'

/** Tokens that shares may lack for being whole numbers: less than one a region. */
const ROUNDED_MAX = 8

/** How one key's limit is split at present, and how that moved since the page shows it. */
export function Split(props: {
  readonly capacity: number
  /** Of the plane, in the order that gives each its colour. */
  readonly members: readonly string[]
  /** How long ago each region was heard: shares are told only when they change. */
  readonly ages: ReadonlyMap<string, number | null>
  readonly windowMs?: number
  readonly shares: KeyShares
  readonly at: string
}) {
  const { capacity, members, ages, windowMs = 1_000, shares, at } = props
  const [points, setPoints] = useState<readonly SharePoint[]>([])
  const { key, regions } = shares
  // A point for each word, which `at` tells apart; an unchanged split has points too.
  useEffect(() => {
    if (at === '') return
    const known = regions.filter((one) => !isSilent(ages.get(one.region) ?? null))
    const tokens = new Map(known.map((one) => [one.region, one.share.tokens]))
    setPoints((last) => withPoint(last, { atS: Math.floor(Date.parse(at) / 1_000), tokens }))
  }, [at, key])
  const names = regions.map(({ region }) => region)
  const silent = silentOf(ages)
  const unknown = names.filter((name) => silent.includes(name))
  const sum = regions.reduce((all, one) => all + one.share.tokens, 0)
  const perWindow = windowMs / 1_000
  const loans = shares.loans.map((loan) => ({
    ...loan,
    leftMs: loan.deadline === null ? null : Date.parse(loan.deadline) - Date.parse(at),
  }))
  return (
    <>
      <h2>Split of {key}</h2>
      <p class="sum">
        <strong>
          {full(sum)} of {full(capacity)}
        </strong>{' '}
        tokens are some region's share <SumStatus {...{ sum, capacity, unknown }} />
      </p>
      <div class="side-by-side">
        <Chart
          label="Share by region, tokens"
          isStacked
          times={points.map((point) => point.atS)}
          series={names.map((name) => ({
            name,
            colour: colourOf(name, members),
            values: points.map((point) => point.tokens.get(name) ?? null),
          }))}
          ceiling={{ name: 'limit', value: capacity }}
        />
        <Bars
          unit={windowMs === 1_000 ? 'tokens a second' : 'tokens a window'}
          bars={regions.map((one) => ({
            name: one.region,
            share: one.share.tokens,
            demand: one.demandPerSecond * perWindow,
            isHungry: one.isHungry,
            isKnown: !silent.includes(one.region),
            colour: colourOf(one.region, members),
          }))}
        />
        <Flows
          regions={names.map((name) => ({ name, colour: colourOf(name, members) }))}
          loans={loans.filter(({ leftMs }) => leftMs === null || leftMs > 0)}
          capacity={capacity}
        />
      </div>
      <ShareTable shares={shares} ages={ages} />
      <LoanTable name={key} loans={loans} />
    </>
  )
}

function ShareTable(props: {
  readonly shares: KeyShares
  readonly ages: ReadonlyMap<string, number | null>
}) {
  const { ages } = props
  const { key, regions } = props.shares
  return (
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
            isSilent(ages.get(row.region) ?? null) ? (
              <Status tone="bad">{`cut off, as of ${age(ages.get(row.region) ?? row.ageMs)} ago`}</Status>
            ) : row.isHungry ? (
              <Status tone="warn">hungry: denies, and could use more</Status>
            ) : (
              <Status tone="good">has what it needs</Status>
            ),
        },
      ]}
    />
  )
}

function LoanTable(props: { readonly name: string; readonly loans: readonly Loan[] }) {
  const { name, loans } = props
  return (
    <Table
      caption={`Loans of ${name}`}
      empty="Nothing is lent."
      rows={loans}
      keyOf={(loan) => `${loan.lender} ${loan.borrower}`}
      columns={[
        { name: 'Lender', cell: (loan) => loan.lender },
        { name: 'Borrower', cell: (loan) => loan.borrower },
        { name: 'Tokens', isNumber: true, cell: (loan) => full(loan.tokens) },
        { name: 'Until', cell: (loan) => lapseText(loan.leftMs) },
      ]}
    />
  )
}

function SumStatus(props: {
  readonly sum: number
  readonly capacity: number
  readonly unknown: readonly string[]
}) {
  const { sum, capacity, unknown } = props
  if (unknown.length > 0) {
    return (
      <Status tone="warn">{`by the last word of ${unknown.join(', ')}, which cannot be heard`}</Status>
    )
  }
  if (sum > capacity) return <Status tone="warn">as regions told it at different instants</Status>
  return (
    <>
      <Status tone="good">within the limit</Status>
      {capacity - sum > ROUNDED_MAX && (
        <span class="hint"> {full(capacity - sum)} are on their way between regions</span>
      )}
    </>
  )
}
