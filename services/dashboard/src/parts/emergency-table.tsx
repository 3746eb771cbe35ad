import type { EmergencyReply } from '../../../../shared/protocol/emergency.ts'
import { emergencyName, endEmergency } from '../data/actions.ts'
import type { Api } from '../data/admin-calls.ts'
import type { Caller } from '../data/caller.ts'
import { age } from '../data/format.ts'
import { ActionButton, useAction } from './action-button.tsx'
import { Table } from './table.tsx'

/** What operators have put in force for a time; nothing while there is none. */
export function EmergencyTable(props: {
  readonly api: Api
  readonly caller: Caller
  readonly actions: readonly EmergencyReply[]
}) {
  const { api, caller, actions } = props
  // Its row is gone before the dialog has said where that is in force.
  const { begin, isOpen, dialog } = useAction(api, caller)
  if (actions.length === 0 && !isOpen) return null
  return (
    <section aria-labelledby="emergency">
      <h2 id="emergency">In force for a time</h2>
      <Table
        caption="Emergency actions in force"
        empty="Nothing any more."
        rows={actions}
        keyOf={({ id }) => String(id)}
        columns={[
          { name: 'What', cell: (one) => `${emergencyName(one.kind)} ${numbersOf(one)}` },
          { name: 'Policy', cell: (one) => `${one.domain} / ${one.policy}` },
          { name: 'Ends in', cell: (one) => age(1_000 * one.remainingSeconds) },
          { name: 'By', cell: (one) => one.begunBy },
          { name: 'Why', cell: (one) => one.reason },
          {
            name: 'End it',
            cell: (one) => (
              <ActionButton
                name="End"
                about={`${emergencyName(one.kind)} of ${one.policy}`}
                onClick={() => begin(endEmergency(one))}
              />
            ),
          },
        ]}
      />
      {dialog}
    </section>
  )
}

function numbersOf({ value, factor, capacity, limit, split }: EmergencyReply): string {
  const parts = Object.entries(split ?? {}).map(([region, percent]) => `${region} ${percent} %`)
  const numbers = [value, factor && `× ${factor}`, capacity !== undefined && `at ${capacity}`]
  return [...numbers, limit, parts.join(', ')].filter(Boolean).join(' ')
}
