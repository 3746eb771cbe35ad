import type { UsageTopReply } from '../../../../shared/protocol/reading-replies.ts'
import type { ViewProps } from '../app.tsx'
import { compact } from '../data/format.ts'
import { usePoll } from '../data/poll.ts'
import { linkTo } from '../data/route.ts'
import { Freshness } from '../parts/freshness.tsx'
import { KeyLink } from '../parts/key-link.tsx'
import { Search } from '../parts/search.tsx'
import { Table } from '../parts/table.tsx'

const BY = { use: 'by use', denial: 'by denials', unmet: 'by unmet demand' } as const
type By = keyof typeof BY

const SPANS = [
  ['60', 'last minute'],
  ['300', 'last 5 minutes'],
  ['3600', 'last hour'],
] as const

/** The hot keys that use most, are denied most, or ask most in vain. Admin searches and pages; the page holds one. */
export function Keys({ api, route }: ViewProps) {
  const asked = route.query.get('by')
  const by: By = asked === 'use' || asked === 'unmet' ? asked : 'denial'
  const search = route.query.get('search')
  const [seconds, spanName] = SPANS.find(([one]) => one === route.query.get('seconds')) ?? SPANS[0]
  const cursor = route.query.get('page')
  const query = new URLSearchParams({ by, seconds, limit: '50' })
  if (search) query.set('search', search)
  if (cursor) query.set('cursor', cursor)
  const top = usePoll<UsageTopReply>(api, `/v1/usage/top?${query}`, 2_000)
  const linkFor = (changed: Readonly<Record<string, string | null>>): string =>
    linkTo('keys', [], { by, search, seconds, ...changed })
  return (
    <>
      <div class="head">
        <h1>Keys of the {spanName}</h1>
        <Freshness of={[top]} />
      </div>
      <nav class="tabs" aria-label="Order">
        {Object.entries(BY).map(([one, name]) => (
          <a key={one} href={linkFor({ by: one })} aria-current={one === by ? 'true' : undefined}>
            {name}
          </a>
        ))}
      </nav>
      <nav class="tabs" aria-label="Time">
        {SPANS.map(([one, name]) => (
          <a
            key={one}
            href={linkFor({ seconds: one })}
            aria-current={one === seconds ? 'true' : undefined}
          >
            {name}
          </a>
        ))}
      </nav>
      <Search value={search ?? ''} linkFor={(text) => linkFor({ search: text })} />
      {top.problem !== null && <p class="problem">{top.problem}</p>}
      <Table
        caption={`Hot keys ${BY[by]}`}
        empty={top.data === null ? 'Loading' : NONE[by]}
        rows={top.data?.items ?? []}
        keyOf={(row) => `${row.limitId} ${row.key}`}
        columns={[
          { name: 'Key', cell: (row) => <KeyLink of={row} /> },
          { name: 'Policy', cell: (row) => `${row.domain} / ${row.policy}` },
          { name: 'Admitted', isNumber: true, cell: (row) => compact(row.total.admitted) },
          { name: 'Denied', isNumber: true, cell: (row) => compact(row.total.denied) },
          { name: 'Unmet (estimate)', isNumber: true, cell: (row) => compact(row.total.unmet) },
          {
            name: 'By region, admitted / denied',
            cell: (row) =>
              row.regions
                .map((one) => `${one.region} ${compact(one.admitted)} / ${compact(one.denied)}`)
                .join(', '),
          },
        ]}
      />
      <nav class="tabs" aria-label="Pages">
        {cursor && <a href={linkFor({})}>first page</a>}
        {top.data?.next && <a href={linkFor({ page: top.data.next })}>next page</a>}
      </nav>
      {search && top.data?.items.length === 0 && (
        <p class="hint">
          A key that is not hot has no figures of its own.{' '}
          <a href={linkTo('explain', [], { descriptor: search })}>Explain what governs {search}</a>
        </p>
      )}
    </>
  )
}

const NONE: Readonly<Record<By, string>> = {
  use: 'No hot key was used: none is over 70 % of its share or was denied.',
  denial: 'No key was denied.',
  unmet: 'No key asked for more than its share.',
}
