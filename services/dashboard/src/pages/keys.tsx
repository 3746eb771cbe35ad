import { useState } from 'preact/hooks'
import type { UsageTopReply } from '../../../../shared/protocol/reading-replies.ts'
import type { ViewProps } from '../app.tsx'
import { compact } from '../data/format.ts'
import { usePoll } from '../data/poll.ts'
import { linkTo } from '../data/route.ts'
import { Freshness } from '../parts/freshness.tsx'
import { KeyLink } from '../parts/key-link.tsx'
import { Table } from '../parts/table.tsx'

const BY = { use: 'by use', denial: 'by denials', unmet: 'by unmet demand' } as const
type By = keyof typeof BY

/** The hot keys that use most, are denied most, or ask most in vain. */
export function Keys({ api, route }: ViewProps) {
  const [search, setSearch] = useState('')
  const asked = route.query.get('by')
  const by: By = asked === 'denial' || asked === 'unmet' ? asked : 'use'
  const top = usePoll<UsageTopReply>(api, `/v1/usage/top?by=${by}&limit=100`, 2_000)
  const wanted = search.trim().toLowerCase()
  const rows = (top.data?.items ?? []).filter((item) =>
    `${item.key} ${item.domain}/${item.policy}`.toLowerCase().includes(wanted),
  )
  return (
    <>
      <div class="head">
        <h1>Keys of the last minute</h1>
        <Freshness of={[top]} />
      </div>
      <nav class="tabs" aria-label="Order">
        {Object.entries(BY).map(([one, name]) => (
          <a
            key={one}
            href={linkTo('keys', [], { by: one })}
            aria-current={one === by ? 'true' : undefined}
          >
            {name}
          </a>
        ))}
      </nav>
      <label class="search">
        Search
        <input
          type="search"
          value={search}
          onInput={(event) => setSearch(event.currentTarget.value)}
        />
      </label>
      <Table
        caption={`Hot keys ${BY[by]}`}
        empty={
          top.data === null
            ? 'Loading'
            : 'No key is hot: none is over 70 % of its share or was denied.'
        }
        rows={rows.slice(0, 100)}
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
      {rows.length > 100 && <p class="hint">The first 100 of {rows.length} are shown.</p>}
    </>
  )
}
