import type { ComponentChildren } from 'preact'
import { useRef, useState } from 'preact/hooks'
import type { Action } from '../data/actions.ts'
import type { Api } from '../data/admin-calls.ts'
import type { Caller } from '../data/caller.ts'
import { ActionDialog } from './action-dialog.tsx'

/** One showing of the dialog, however soon it follows another. */
interface Opening {
  readonly number: number
  readonly action: Action
}

/** One dialog for all actions of a part of the page, which must outlive what the buttons are about. */
export function useAction(
  api: Api,
  caller: Caller,
): {
  readonly begin: (action: Action) => void
  readonly isOpen: boolean
  readonly dialog: ComponentChildren
} {
  const [open, setOpen] = useState<Opening | null>(null)
  const openings = useRef(0)
  const begin = (action: Action): void => {
    openings.current += 1
    setOpen({ number: openings.current, action })
  }
  // A browser tells of a dialog's end later, when the next one may be open already: that one stays.
  const close = (number: number): void => setOpen((now) => (now?.number === number ? null : now))
  return {
    begin,
    isOpen: open !== null,
    dialog: open !== null && (
      <ActionDialog
        key={open.number}
        {...{ api, caller }}
        action={open.action}
        onClose={() => close(open.number)}
      />
    ),
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
