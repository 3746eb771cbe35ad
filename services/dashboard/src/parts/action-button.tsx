import type { ComponentChildren } from 'preact'
import { useState } from 'preact/hooks'
import type { Action } from '../data/actions.ts'
import type { Api } from '../data/admin-calls.ts'
import type { Caller } from '../data/caller.ts'
import { ActionDialog } from './action-dialog.tsx'

/** One dialog for all actions of a part of the page, which must outlive what the buttons are about. */
export function useAction(
  api: Api,
  caller: Caller,
): {
  readonly begin: (action: Action) => void
  readonly isOpen: boolean
  readonly dialog: ComponentChildren
} {
  const [open, setOpen] = useState<Action | null>(null)
  const close = (): void => setOpen(null)
  return {
    begin: setOpen,
    isOpen: open !== null,
    dialog: open !== null && <ActionDialog {...{ api, caller }} action={open} onClose={close} />,
  }
}

/** A button that opens a dialog; `about` says what it is about where that is not plain from what stands around it. */
export function ActionButton(props: {
  readonly name: string
  readonly about?: string
  readonly onClick: () => void
}) {
  const { name, about, onClick } = props
  return (
    <button
      type="button"
      class="quiet"
      aria-haspopup="dialog"
      {...(about && { 'aria-label': `${name} ${about}` })}
      onClick={onClick}
    >
      {name}
    </button>
  )
}
