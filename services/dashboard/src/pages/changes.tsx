import type { ViewProps } from '../app.tsx'
import { usePoll } from '../data/poll.ts'
import { Freshness } from '../parts/freshness.tsx'
import { Table } from '../parts/table.tsx'

interface AuditItem {
  readonly seq: number
  readonly at: string
  readonly actor: string
  readonly action: string
  readonly objectKind: string
  readonly objectId: string
  readonly before: unknown
  readonly after: unknown
  readonly reason: string | null
  readonly revision: number | null
}

/** Who changed what, when and why. */
export function Changes({ api }: ViewProps) {
  const audit = usePoll<{ items: AuditItem[] }>(api, '/v1/audit?limit=50', 3_000)
  return (
    <>
      <div class="head">
        <h1>Changes</h1>
        <Freshness of={[audit]} />
      </div>
      {audit.problem !== null && <p class="problem">{audit.problem}</p>}
      <Table
        caption="Changes, newest first"
        empty={audit.data === null ? 'Loading' : 'Nothing was changed yet.'}
        rows={audit.data?.items ?? []}
        keyOf={(item) => String(item.seq)}
        columns={[
          { name: 'When', cell: (item) => new Date(item.at).toLocaleString('en-GB') },
          { name: 'Revision', isNumber: true, cell: (item) => item.revision ?? '–' },
          { name: 'Who', cell: (item) => item.actor },
          { name: 'What', cell: (item) => `${item.action} ${item.objectKind} ${item.objectId}` },
          { name: 'Why', cell: (item) => item.reason ?? '–' },
          { name: 'Difference', cell: (item) => <Difference item={item} /> },
        ]}
      />
    </>
  )
}

function Difference({ item }: { readonly item: AuditItem }) {
  const lines = differences(item.before, item.after)
  if (lines.length === 0) return <>–</>
  return (
    <details>
      <summary>{lines.length === 1 ? '1 field' : `${lines.length} fields`}</summary>
      <ul class="diff">
        {lines.map(({ path, from, to }) => (
          <li key={path}>
            <code>{path}</code>: {from === undefined ? '(not set)' : JSON.stringify(from)} →{' '}
            {to === undefined ? '(not set)' : JSON.stringify(to)}
          </li>
        ))}
      </ul>
    </details>
  )
}

interface FieldChange {
  readonly path: string
  readonly from: unknown
  readonly to: unknown
}

/** Fields that differ between two documents, by their paths; arrays by position. */
export function differences(before: unknown, after: unknown, path = ''): FieldChange[] {
  if (isNode(before) && isNode(after)) {
    const names = [...new Set([...Object.keys(before), ...Object.keys(after)])]
    return names.flatMap((name) =>
      differences(before[name], after[name], path === '' ? name : `${path}.${name}`),
    )
  }
  if (JSON.stringify(before) === JSON.stringify(after)) return []
  return [
    { path: path === '' ? 'document' : path, from: before ?? undefined, to: after ?? undefined },
  ]
}

function isNode(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null
}
