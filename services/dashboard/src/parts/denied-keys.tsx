import type { EmergencyReply } from '../../../../shared/protocol/emergency.ts'
import type { UsageTopReply } from '../../../../shared/protocol/reading-replies.ts'
import { compact } from '../data/format.ts'
import type { LiveState } from '../data/live-state.ts'
import { whyDenied } from '../data/why.ts'
import { KeyLink } from './key-link.tsx'
import { Table } from './table.tsx'

/** Who is denied, where, and why: the question that most who come have. */
export function DeniedKeys(props: {
  readonly rows: UsageTopReply['items']
  readonly isLoaded: boolean
  readonly live: LiveState
  readonly silent: readonly string[]
  readonly actions: readonly EmergencyReply[]
}) {
  const { rows, isLoaded, live, silent, actions } = props
  const sharesOf = (row: (typeof rows)[number]) =>
    live.shares.get(row.limitId)?.keys.find(({ key }) => key === row.key) ?? null
  return (
    <Table
      caption="Keys that were denied most in the last minute"
      empty={isLoaded ? 'Nothing was denied.' : 'Loading'}
      rows={rows}
      keyOf={(row) => `${row.limitId} ${row.key}`}
      columns={[
        { name: 'Key', cell: (row) => <KeyLink of={row} /> },
        { name: 'Policy', cell: (row) => `${row.domain} / ${row.policy}` },
        { name: 'Denied', isNumber: true, cell: (row) => compact(row.total.denied) },
        {
          name: 'Where',
          cell: (row) =>
            row.regions
              .filter((one) => one.denied > 0)
              .map((one) => `${one.region} ${compact(one.denied)}`)
              .join(', '),
        },
        { name: 'Why', cell: (row) => whyDenied(row, { shares: sharesOf(row), silent, actions }) },
      ]}
    />
  )
}
