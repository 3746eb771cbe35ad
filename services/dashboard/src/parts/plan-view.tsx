import type { Plan } from '../../../../shared/protocol/plan.ts'
import { full } from '../data/format.ts'
import { Diff } from './diff.tsx'
import { Table } from './table.tsx'

/** What a change would do, in the words of admin that tried it. */
export function PlanView({ plan }: { readonly plan: Plan }) {
  const tokens = (part: { readonly tokens: number } | null): string =>
    part === null ? 'none' : full(part.tokens)
  const parts = plan.limits.flatMap((limit) => limit.regions.map((region) => ({ limit, region })))
  const capacities = plan.limits.filter(({ capacity }) => capacity.before !== capacity.after)
  return (
    <div>
      <h3>What it would change</h3>
      {plan.changes.length === 0 && <p>Nothing: it is so already.</p>}
      {capacities.map(({ domain, policy, limit, capacity }) => (
        <p key={`${domain}/${policy} ${limit}`}>
          {domain}/{policy}, {limit}:{' '}
          <strong>
            {capacity.before === null ? 'none' : full(capacity.before)} →{' '}
            {capacity.after === null ? 'none' : full(capacity.after)}
          </strong>
        </p>
      ))}
      {plan.warnings.map((warning) => (
        <p class="problem" key={`${warning.field} ${warning.message}`}>
          {warning.field} {warning.message}. {warning.fix}
        </p>
      ))}
      {plan.keysOver.length > 0 && (
        <p class="problem">
          Over the new limit at present:{' '}
          {plan.keysOver
            .slice(0, 10)
            .map((one) => `${one.key} (${full(one.used)} of ${full(one.capacity)})`)
            .join(', ')}
          {plan.keysOver.length > 10 && ` and ${plan.keysOver.length - 10} more`}
        </p>
      )}
      {parts.length > 0 && (
        <Table
          caption="Base of each region, before and after"
          empty=""
          rows={parts.slice(0, 100)}
          keyOf={({ limit, region }) =>
            `${limit.domain}/${limit.policy} ${limit.limit} ${region.region}`
          }
          columns={[
            { name: 'Limit', cell: ({ limit }) => `${limit.policy}, ${limit.limit}` },
            { name: 'Region', cell: ({ region }) => region.region },
            { name: 'Base', isNumber: true, cell: ({ region }) => tokens(region.before) },
            { name: 'Would be', isNumber: true, cell: ({ region }) => tokens(region.after) },
          ]}
        />
      )}
      {plan.changes.slice(0, 20).map((change) => (
        <details key={`${change.kind} ${change.id}`}>
          <summary>
            {change.kind} {change.id}: {change.change}
          </summary>
          <Diff text={change.text} />
        </details>
      ))}
      {plan.changes.length + plan.changesLeftOut > 20 && (
        <p class="hint">and {plan.changes.length + plan.changesLeftOut - 20} more changes</p>
      )}
    </div>
  )
}
