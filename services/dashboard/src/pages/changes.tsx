import { useState } from 'preact/hooks'
import type { AuditEntryReply } from '../../../../shared/protocol/admin-replies.ts'
import type { RevisionDiff } from '../../../../shared/protocol/revisions.ts'
import type { ViewProps } from '../app.tsx'
import { rollBack } from '../data/actions.ts'
import type { Api } from '../data/admin-calls.ts'
import { differences, differenceText } from '../data/differences.ts'
import { usePoll } from '../data/poll.ts'
import { linkTo } from '../data/route.ts'
import { ActionButton, useAction } from '../parts/action-button.tsx'
import { Diff } from '../parts/diff.tsx'
import { Freshness } from '../parts/freshness.tsx'
import { Table } from '../parts/table.tsx'

/** A revision never changes; this is so seldom that it is as good as once. */
const NEVER_MS = 3_600_000

/** Who changed what, when and why; the difference on demand. */
export function Changes({ api, route, caller }: ViewProps) {
  const cursor = route.query.get('page')
  const [shown] = route.names
  const { begin, dialog } = useAction(api, caller)
  const audit = usePoll<{ items: AuditEntryReply[]; next: string | null }>(
    api,
    `/v1/audit?limit=50${cursor ? `&cursor=${encodeURIComponent(cursor)}` : ''}`,
    3_000,
  )
  return (
    <>
      <div class="head">
        <h1>Changes</h1>
        <Freshness of={[audit]} />
      </div>
      {audit.problem !== null && <p class="problem">{audit.problem}</p>}
      {shown !== undefined && (
        <section aria-labelledby="revision">
          <h2 id="revision">Revision {shown}</h2>
          <Difference
            api={api}
            revision={shown}
            entry={audit.data?.items.find(({ revision }) => String(revision) === shown)}
          />
          <p>
            <a href={linkTo('changes')}>All changes</a>
          </p>
        </section>
      )}
      <Table
        caption="Changes, newest first"
        empty={audit.data === null ? 'Loading' : 'Nothing was changed yet.'}
        rows={audit.data?.items ?? []}
        keyOf={(item) => String(item.seq)}
        columns={[
          { name: 'When', cell: (item) => new Date(item.at).toLocaleString('en-GB') },
          {
            name: 'Revision',
            isNumber: true,
            cell: ({ revision }) =>
              revision === null ? (
                '–'
              ) : (
                <a href={linkTo('changes', [String(revision)])}>{revision}</a>
              ),
          },
          { name: 'Who', cell: (item) => item.actor },
          { name: 'What', cell: (item) => `${item.action} ${item.objectId}` },
          { name: 'Why', cell: (item) => item.reason ?? '–' },
          { name: 'Difference', cell: (entry) => <Foldout {...{ api, entry }} /> },
          {
            name: 'Go back',
            cell: ({ revision }) =>
              revision !== null && (
                <ActionButton
                  name="Roll back"
                  about={`to revision ${revision}`}
                  onClick={() => begin(rollBack(revision))}
                />
              ),
          },
        ]}
      />
      {dialog}
      <nav class="tabs" aria-label="Pages">
        {cursor && <a href={linkTo('changes')}>newest</a>}
        {audit.data?.next && <a href={linkTo('changes', [], { page: audit.data.next })}>older</a>}
      </nav>
    </>
  )
}

/** Reads a difference only when it is opened. */
function Foldout(props: { readonly api: Api; readonly entry: AuditEntryReply }) {
  const { api, entry } = props
  const [isOpen, setOpen] = useState(false)
  if (entry.revision === null) return <>–</>
  return (
    <details onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>show</summary>
      {isOpen && <Difference {...{ api, entry }} revision={String(entry.revision)} />}
    </details>
  )
}

/**
 * What a revision changed in policies and overrides; of anything else, and for a token that may not see revisions, what
 * the log of changes holds.
 */
function Difference(props: {
  readonly api: Api
  readonly revision: string
  readonly entry: AuditEntryReply | undefined
}) {
  const { api, revision, entry } = props
  const path = `/v1/revisions/${encodeURIComponent(revision)}/diff`
  const diff = usePoll<RevisionDiff>(api, path, NEVER_MS)
  if (diff.data === null && diff.problem === null) return <p class="hint">Loading</p>
  const { items, itemsLeftOut } = diff.data ?? { items: [], itemsLeftOut: 0 }
  if (items.length === 0 && entry !== undefined) {
    return <Diff text={differenceText(differences(entry.before, entry.after))} />
  }
  if (diff.problem !== null) return <p class="problem">{diff.problem}</p>
  return (
    <>
      {items.length === 0 && <p class="hint">No policy or override differs.</p>}
      {items.map((item) => (
        <div key={`${item.kind} ${item.id}`}>
          <p>
            {item.kind} {item.id}: {item.change}
          </p>
          <Diff text={item.text} />
        </div>
      ))}
      {itemsLeftOut > 0 && <p class="hint">and {itemsLeftOut} more</p>}
    </>
  )
}
