import type { PolicyReply } from '../../../../shared/protocol/admin-replies.ts'
import type { ViewProps } from '../app.tsx'
import { compact, windowName } from '../data/format.ts'
import { usePoll } from '../data/poll.ts'
import { linkTo } from '../data/route.ts'
import { Freshness } from '../parts/freshness.tsx'
import { Search } from '../parts/search.tsx'
import { Table } from '../parts/table.tsx'

/** The policies, a page of them at a time, with what each limits in a line. */
export function Policies({ api, route }: ViewProps) {
  const search = route.query.get('search') ?? ''
  const cursor = route.query.get('page')
  const query = new URLSearchParams({ limit: '100' })
  if (search !== '') query.set('search', search)
  if (cursor) query.set('cursor', cursor)
  const policies = usePoll<{ items: PolicyReply[]; next: string | null }>(
    api,
    `/v1/policies?${query}`,
    5_000,
  )
  const next = policies.data?.next
  return (
    <>
      <div class="head">
        <h1>Policies</h1>
        <Freshness of={[policies]} />
      </div>
      <Search value={search} linkFor={(text) => linkTo('policies', [], { search: text })} />
      {policies.problem !== null && <p class="problem">{policies.problem}</p>}
      <Table
        caption="Policies"
        empty={
          policies.data === null
            ? 'Loading'
            : search !== ''
              ? `No policy has ${search} in its name or description.`
              : 'No policy. Apply one: quotaplane apply -f limits.yaml'
        }
        rows={policies.data?.items ?? []}
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
      <nav class="tabs" aria-label="Pages">
        {cursor && <a href={linkTo('policies', [], { search })}>first page</a>}
        {next && <a href={linkTo('policies', [], { search, page: next })}>next page</a>}
      </nav>
    </>
  )
}

/** What is in force, emergency actions included. */
export function limitsLine(policy: PolicyReply): string {
  if (policy.unlimited) return 'unlimited'
  return policy.limits
    .map((limit) => {
      const { capacity } = limit.inForce
      if (capacity === 0) return 'denies everything'
      if (limit.calendar) return `${compact(capacity)} a ${limit.calendar.unit}`
      if (limit.windowMs !== undefined)
        return `${compact(capacity)} a ${windowName(limit.windowMs)}`
      return `${compact(capacity)} at once`
    })
    .join(', ')
}
