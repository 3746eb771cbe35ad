import { useState } from 'preact/hooks'
import type { Action } from '../data/actions.ts'
import type { Api } from '../data/admin-calls.ts'
import type { Caller } from '../data/caller.ts'
import { ActionDialog } from './action-dialog.tsx'

/** Buttons that each open the dialog of an action. */
export function ActionButtons(props: {
  readonly api: Api
  readonly caller: Caller
  /** By what its button says. */
  readonly actions: readonly (readonly [name: string, action: () => Action])[]
  /** What the buttons are about, where that is not plain from what stands around them. */
  readonly about?: string
}) {
  const { api, caller, actions, about } = props
  const [open, setOpen] = useState<Action | null>(null)
  return (
    <>
      {actions.map(([name, action]) => (
        <button
          key={name}
          type="button"
          class="quiet"
          aria-haspopup="dialog"
          {...(about && { 'aria-label': `${name} ${about}` })}
          onClick={() => setOpen(action())}
        >
          {name}
        </button>
      ))}
      {open !== null && (
        <ActionDialog {...{ api, caller }} action={open} onClose={() => setOpen(null)} />
      )}
    </>
  )
}
