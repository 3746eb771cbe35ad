import { useEffect, useState } from 'preact/hooks'
import type { ExplainReply } from '../../../../shared/protocol/explain.ts'
import { EXPLAIN_OUTCOMES, parseEntries } from '../../../../shared/protocol/explain-text.ts'
import type { ViewProps } from '../app.tsx'
import { full, windowName } from '../data/format.ts'
import { linkTo } from '../data/route.ts'
import { Refusal } from '../parts/action-dialog.tsx'
import { FieldInput } from '../parts/field-input.tsx'
import { Status } from '../parts/status.tsx'
import { Table } from '../parts/table.tsx'

/** The newest answer alone: a refusal is not shown beside what was said before it. */
interface Answer {
  readonly reply: ExplainReply | null
  readonly error: unknown
}

/** Which policy governs a descriptor and why others do not: what `quotaplane explain` says. */
export function Explain({ api, route }: ViewProps) {
  const domain = route.query.get('domain') ?? ''
  const text = route.query.get('descriptor') ?? ''
  const [answer, setAnswer] = useState<Answer>({ reply: null, error: null })
  const entries = text === '' ? null : parseEntries(text)
  const wrong = entries !== null && 'wrong' in entries ? entries.wrong : null
  useEffect(() => {
    if (domain === '' || entries === null || 'wrong' in entries) return
    const stop = new AbortController()
    api
      .ask<ExplainReply>('/v1/explain', { domain, entries }, stop.signal)
      .then((reply) => setAnswer({ reply, error: null }))
      .catch((error: unknown) => stop.signal.aborted || setAnswer({ reply: null, error }))
    return () => stop.abort()
  }, [api, domain, text])
  const submit = (event: SubmitEvent): void => {
    event.preventDefault()
    const form = new FormData(event.currentTarget as HTMLFormElement)
    const of = (name: string): string => String(form.get(name) ?? '').trim()
    location.hash = linkTo('explain', [], { domain: of('domain'), descriptor: of('descriptor') })
  }
  return (
    <>
      <h1>Explain</h1>
      <form class="choices form" onSubmit={submit}>
        <FieldInput field={{ name: 'domain', label: 'Domain', kind: 'text', value: domain }} />
        <FieldInput
          field={{
            name: 'descriptor',
            label: 'Descriptor',
            kind: 'text',
            value: text,
            help: 'key=value,key=value, as a check sends it',
          }}
        />
        <button type="submit">Explain</button>
      </form>
      {wrong !== null && (
        <p class="problem" role="alert">
          descriptor: {wrong} is not an entry. Write key=value.
        </p>
      )}
      <Refusal error={answer.error} />
      {answer.reply !== null && <Explanation reply={answer.reply} />}
    </>
  )
}

function Explanation({ reply }: { readonly reply: ExplainReply }) {
  const [first] = reply.policies
  const what = reply.entries.map(({ key, value }) => `${key}=${value}`).join(', ')
  const { override } = reply
  return (
    <>
      <p class="reason">
        <strong>{what}</strong> {EXPLAIN_OUTCOMES[reply.outcome]}{' '}
        {reply.outcome !== 'unmatched' && first && (
          <a href={linkTo('policies', [reply.domain, first.policy])}>
            {reply.domain}/{first.policy}
          </a>
        )}
      </p>
      {override !== null && (
        <p>
          {override.value} has an override: {override.kind} {override.tier}
          {override.expiresAt && ` until ${override.expiresAt}`}
        </p>
      )}
      {reply.replaces.length > 0 && (
        <p>It replaces {reply.replaces.join(', ')} in checks that meet both.</p>
      )}
      {reply.limits.map((limit) => (
        <section key={limit.counter} aria-label={limit.limit}>
          <h2>
            {limit.limit}: {full(limit.capacity)} a {windowName(limit.windowMs)}
            {limit.burst !== limit.capacity && `, bursts of ${full(limit.burst)}`}
          </h2>
          <p class="hint">
            {limit.algorithm}, from {limit.from}
            {limit.isCandidate && ', a candidate that is never enforced'}
          </p>
          <Table
            caption={`${limit.limit} in each region`}
            empty="No region is registered."
            rows={limit.regions}
            keyOf={({ region }) => region}
            columns={[
              { name: 'Region', cell: ({ region }) => region },
              { name: 'Share', isNumber: true, cell: ({ share }) => full(share.tokens) },
              { name: 'Demand a second', isNumber: true, cell: (one) => full(one.demandPerSecond) },
              { name: 'Admitted', isNumber: true, cell: (one) => full(one.admitted) },
              { name: 'Denied', isNumber: true, cell: (one) => full(one.denied) },
              {
                name: 'State',
                cell: ({ isHot, isHungry }) =>
                  isHungry ? (
                    <Status tone="warn">hungry: denies, and could use more</Status>
                  ) : (
                    <Status tone="good">
                      {isHot ? 'has what it needs' : 'on its base, not hot'}
                    </Status>
                  ),
              },
            ]}
          />
        </section>
      ))}
      <h2>Policies that were tried</h2>
      <Table
        caption="Policies in the order in which they are tried"
        empty="The domain has no policy."
        rows={reply.policies}
        keyOf={({ policy }) => policy}
        columns={[
          {
            name: 'Policy',
            cell: ({ policy }) => <a href={linkTo('policies', [reply.domain, policy])}>{policy}</a>,
          },
          { name: 'Verdict', cell: ({ verdict }) => verdict },
          { name: 'Because', cell: ({ because }) => because },
        ]}
      />
      {reply.policiesLeftOut > 0 && (
        <p class="hint">and {reply.policiesLeftOut} more that match less</p>
      )}
    </>
  )
}
