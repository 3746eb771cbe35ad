import { useId, useLayoutEffect, useRef, useState } from 'preact/hooks'
import type { Plan } from '../../../../shared/protocol/plan.ts'
import type { RolloutReply } from '../../../../shared/protocol/rollout-reply.ts'
import type { Action, Values } from '../data/actions.ts'
import type { Api, Change } from '../data/admin-calls.ts'
import { ApiError } from '../data/api.ts'
import { type Caller, refusalFor } from '../data/caller.ts'
import { usePoll } from '../data/poll.ts'
import { FieldInput } from './field-input.tsx'
import { PlanView } from './plan-view.tsx'
import { Status } from './status.tsx'

type Step =
  | { readonly kind: 'asking' }
  | { readonly kind: 'planned'; readonly change: Change; readonly plan: Plan; readonly key: string }
  | { readonly kind: 'done'; readonly revision: number | null }

const ROLLOUT_MS = 500

/** What a browser calls a UUID it makes over HTTPS alone; a plane may be reached otherwise. */
function newKey(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16))
  return [...bytes].map((byte) => byte.toString(16).padStart(2, '0')).join('')
}

/**
 * Asks for what a change needs and why, shows what it would do, and carries it out when that is agreed to. A repeated
 * click or a lost answer changes nothing twice: both go with one key.
 */
export function ActionDialog(props: {
  readonly action: Action
  readonly api: Api
  readonly caller: Caller
  readonly onClose: () => void
}) {
  const { action, api, caller, onClose } = props
  const dialog = useRef<HTMLDialogElement>(null)
  const title = useId()
  const [step, setStep] = useState<Step>({ kind: 'asking' })
  const [error, setError] = useState<unknown>(null)
  const [isBusy, setBusy] = useState(false)
  // Before the next key is read, which is meant for the dialog.
  useLayoutEffect(() => dialog.current?.showModal(), [])
  // Closed by the browser, which gives the focus back to what opened it.
  const close = (): void => dialog.current?.close()
  const attempt = async (work: () => Promise<Step>): Promise<void> => {
    setBusy(true)
    setError(null)
    try {
      setStep(await work())
    } catch (err) {
      setError(err)
    }
    setBusy(false)
  }
  const plan = (values: Values, reason: string): Promise<void> =>
    attempt(async () => {
      const change = await action.change(values, reason, api)
      return {
        kind: 'planned',
        change,
        plan: await api.plan<Plan>(change),
        key: newKey(),
      }
    })
  const apply = (change: Change, key: string): Promise<void> =>
    attempt(async () => ({ kind: 'done', ...(await api.apply(change, key)) }))
  return (
    <dialog ref={dialog} aria-labelledby={title} onClose={onClose}>
      <h2 id={title}>{action.title}</h2>
      <p>{action.says}</p>
      <Refusal error={error} isChange={step.kind === 'planned'} />
      <div hidden={step.kind !== 'asking'}>
        <Asking
          {...{ action, isBusy, onPlan: plan, onClose: close }}
          refusal={refusalFor(caller, action)}
        />
      </div>
      {step.kind === 'planned' && (
        <>
          <PlanView plan={step.plan} />
          <p class="buttons">
            <button type="button" disabled={isBusy} onClick={() => apply(step.change, step.key)}>
              Apply
            </button>
            <button
              type="button"
              class="quiet"
              disabled={isBusy}
              onClick={() => setStep({ kind: 'asking' })}
            >
              Back
            </button>
          </p>
        </>
      )}
      {step.kind === 'done' && (
        <>
          <Done api={api} revision={step.revision} />
          <p class="buttons">
            <button type="button" onClick={close}>
              Close
            </button>
          </p>
        </>
      )}
    </dialog>
  )
}

function Asking(props: {
  readonly action: Action
  readonly refusal: string | null
  readonly isBusy: boolean
  readonly onPlan: (values: Values, reason: string) => Promise<void>
  readonly onClose: () => void
}) {
  const { action, refusal, isBusy, onPlan, onClose } = props
  const submit = (event: SubmitEvent): void => {
    event.preventDefault()
    const form = new FormData(event.currentTarget as HTMLFormElement)
    const { reason = '', ...values } = Object.fromEntries(
      [...form].map(([name, value]) => [name, String(value).trim()]),
    )
    void onPlan(values, reason)
  }
  return (
    <form onSubmit={submit}>
      {action.fields.map((field) => (
        <FieldInput key={field.name} field={field} />
      ))}
      <FieldInput
        field={{
          name: 'reason',
          label: 'Reason',
          kind: 'text',
          value: '',
          help: 'For the history: who finds it in force reads it.',
        }}
      />
      {refusal !== null && <p class="problem">{refusal}</p>}
      <p class="buttons">
        <button type="submit" disabled={isBusy || refusal !== null}>
          Show the plan
        </button>
        <button type="button" class="quiet" onClick={onClose}>
          Cancel
        </button>
      </p>
    </form>
  )
}

/** What admin refused, by field, and how to mend it. */
export function Refusal(props: {
  readonly error: unknown
  /** What was sent would change something, so whether it did must be said. */
  readonly isChange?: boolean
}) {
  const { error, isChange } = props
  if (error === null) return null
  if (!(error instanceof ApiError)) {
    return (
      <p class="problem" role="alert">
        Admin cannot be reached.{' '}
        {isChange
          ? 'It is not known whether the change was made; to apply it again makes it once.'
          : 'Try again.'}
      </p>
    )
  }
  return (
    <div class="problem" role="alert">
      <p>{error.message}</p>
      <ul>
        {error.problems.map(({ field, message, fix }) => (
          <li key={`${field} ${message}`}>
            {field} {message}. {fix}
          </li>
        ))}
      </ul>
    </div>
  )
}

/** Where the change is in force, as far as regions have said. */
function Done({ api, revision }: { readonly api: Api; readonly revision: number | null }) {
  const path = `/v1/rollouts/${revision ?? 'latest'}`
  const rollout = usePoll<RolloutReply>(api, path, ROLLOUT_MS)
  const regions = rollout.data?.regions ?? []
  return (
    <div role="status">
      <p>Done, as revision {rollout.data?.revision ?? revision}.</p>
      <ul class="plain">
        {regions.map(({ region, state, reason }) => (
          <li key={region}>
            <Status tone={state === 'applied' ? 'good' : state === 'refused' ? 'bad' : 'warn'}>
              {state === 'applied' ? `in force in ${region}` : `${state} in ${region}`}
            </Status>{' '}
            {state === 'applied' ? '' : reason}
          </li>
        ))}
      </ul>
    </div>
  )
}
