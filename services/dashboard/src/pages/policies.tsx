import { useState } from 'preact/hooks'
import type { PolicyReply } from '../../../../shared/protocol/admin-replies.ts'
import type { ViewProps } from '../app.tsx'
import { compact, windowName } from '../data/format.ts'
import { usePoll } from '../data/poll.ts'
import { linkTo } from '../data/route.ts'
import { Freshness } from '../parts/freshness.tsx'
import { Table } from '../parts/table.tsx'

/** Every policy, with what it limits in a line. */
export function Policies({ api }: ViewProps) {
  const [search, setSearch] = useState('')
  const policies = usePoll<{ items: PolicyReply[]; next: string | null }>(
    api,
    '/v1/policies?limit=100',
    5_000,
  )
  const wanted = search.trim().toLowerCase()
  const rows = (policies.data?.items ?? []).filter((policy) =>
    `${policy.domain}/${policy.name} ${policy.description}`.toLowerCase().includes(wanted),
  )
  return (
    <>
      <div class="head">
        <h1>Policies</h1>
        <Freshness of={[policies]} />
      </div>
      <label class="search">
        Search
        <input
          type="search"
          value={search}
          onInput={(event) => setSearch(event.currentTarget.value)}
        />
      </label>
      {policies.data?.next && <p class="hint">The first 100 are shown; others by their address.</p>}
      <Table
        caption="Policies"
        empty={
          policies.data === null
            ? 'Loading'
            : 'No policy. Apply one: quotaplane apply -f limits.yaml'
        }
        rows={rows}
        keyOf={(policy) => String(policy.id)}
        columns={[
          {
            name: 'Policy',
            cell: (policy) => (
              <a href={linkTo('policies', [policy.domain, policy.name])}>
                {policy.domain} / {policy.name}
              </a>
            ),
          },
          { name: 'Limits', cell: limitsLine },
          {
            name: 'Mode',
            cell: (policy) => (policy.shadow ? `${policy.mode}, shadow` : policy.mode),
          },
          { name: 'Description', cell: (policy) => policy.description },
          { name: 'Revision', isNumber: true, cell: (policy) => policy.revision },
        ]}
      />
    </>
  )
}

export function limitsLine(policy: PolicyReply): string {
  if (policy.unlimited) return 'unlimited'
  return policy.limits
    .map((limit) => {
      if (limit.capacity === 0) return 'denies everything'
      if (limit.calendar) return `${compact(limit.capacity)} a ${limit.calendar.unit}`
      if (limit.windowMs !== undefined)
        return `${compact(limit.capacity)} a ${windowName(limit.windowMs)}`
      return `${compact(limit.capacity)} at once`
    })
    .join(', ')
}
